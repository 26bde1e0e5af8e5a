// backend.h - the part of a backend that a launcher of ranks needs: the world's communicators, and
// one place where ends and failures of ranks are reported.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"
#include "comm/verdict.h"

namespace shardlab {

/// One run of `n` ranks. Any rank may call it at any time. Outlives the ranks' communicators and
/// pending results.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The world's communicator of the running rank; once per rank.
  virtual std::unique_ptr<Communicator> world(std::int64_t rank) = 0;
  /// On the rank, when its body has returned: waits for its pending results, so that a call that
  /// others never enter does not remain unnoticed. Throws as waiting for the results would.
  virtual void settle(std::int64_t rank) { static_cast<void>(rank); }
  /// Called for every rank, after rank_failed() where it failed, when its communicators are gone:
  /// it enters no further collective.
  virtual void rank_ended(std::int64_t rank) = 0;
  /// Releases all other ranks, unless the world has failed before. The rank's communicators still
  /// exist.
  virtual void rank_failed(std::int64_t rank, const Error& cause) = 0;
  /// Null while the world is sound. Does not change once set.
  virtual const Verdict* verdict() const = 0;
};

}  // namespace shardlab
