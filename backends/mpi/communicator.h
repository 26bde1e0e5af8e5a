// communicator.h - the door of the backend `mpi`. Groups are lists of ranks with message tags of
// their own: splitting one needs no collective of MPI, which could not be left when a rank fails.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/mpi/operation.h"
#include "backends/process/checks.h"
#include "backends/process/entered_call.h"
#include "comm/communicator.h"

namespace shardlab::mpi {

/// A message that is in flight while the program continues.
struct PendingMessage {
  std::shared_ptr<Operation> operation;
  std::string call;                            ///< in the channel's form
  std::optional<process::CallPlace> compared;  ///< its place, if ranks compare it before data moves
};

/// One run of this process's rank.
struct Run {
  Run(Session& mpi_session, CollectiveChecks wanted);
  Run& operator=(Run&&) = delete;

  Session& session;
  const CollectiveChecks checks;
  std::shared_ptr<Engine> engine;  ///< lets pending results check whether it still exists
  int next_tag = 0;                ///< first one that no group of this rank has
  std::vector<PendingMessage> messages = {};
};
/// Waits for the messages that the program has not waited for.
void settle(Run& run);

/// The group of all ranks; called once per run.
std::unique_ptr<Communicator> make_world(Run& run);

}  // namespace shardlab::mpi
