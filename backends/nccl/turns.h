// turns.h - reports the calls of the rank. If ranks compare these, NCCL's calls are held back until
// rank 0 has seen all ranks of the group enter with calls that fit. They are made in the order in
// which it saw that, which is the same on all ranks, so that groups that share a stream never wait
// for each other crosswise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "backends/nccl/session.h"
#include "backends/process/control_channel.h"

namespace shardlab::nccl {

/// Used by one thread. Ends before its session.
class Turns {
 public:
  Turns(process::ControlChannel& channel, Session& session, CollectiveChecks checks)
      : channel_(channel), session_(session), checks_(checks) {}

  /// Reports a call that waits: returns when it may be made, after all others whose turn is before
  /// it. Returns the place where it met the others' (of a receive from any: process::is_any).
  ///   fails  with the verdict
  process::CallPlace take(const process::Entrance& entrance, const backends::Call& call);
  /// Reports one that does not wait: `make` is called when it has its turn and the rank waits, or
  /// at once where calls are not compared.
  void queue(const process::Entrance& entrance, const backends::Call& call,
             std::function<void()> make);
  /// Whether calls are held back until they have been compared.
  bool compared() const { return checks_ == CollectiveChecks::kOn; }
  /// The rank does not wait in its last call any more.
  void go_on() { channel_.goes_on(); }
  /// Returns when a queued call has been made.
  void await(process::CallPlace place);
  /// The program has ended: returns when all queued calls have been made.
  void settle();

  /// The number that the next group may have. Ranks that make one take the largest of theirs, and
  /// report it.
  std::int64_t next_group() const { return next_group_; }
  void group_made(std::int64_t number) { next_group_ = number + 1; }

 private:
  process::CallPlace make_until(process::CallPlace place);

  process::ControlChannel& channel_;
  Session& session_;
  const CollectiveChecks checks_;
  std::map<process::CallPlace, std::function<void()>> queued_;
  std::int64_t next_group_ = 1;  ///< the world is 0
};

}  // namespace shardlab::nccl
