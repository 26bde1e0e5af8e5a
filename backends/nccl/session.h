// session.h - the NCCL state of one process during one run: the stream of collectives, the
// communicators that are alive, and the way out when one of them or another rank fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "backends/nccl/alive.h"
#include "backends/nccl/api.h"
#include "backends/nccl/group.h"
#include "backends/nccl/in_flight.h"
#include "backends/nccl/local_side.h"
#include "backends/nccl/lookout.h"
#include "backends/shared/patience.h"
#include "base/error.h"

namespace shardlab::nccl {

inline constexpr const char* kOneRankADevice =
    "start at most one rank for each device, or say which with SHARDLAB_DEVICE_ORDINAL";
/// The number of devices that this process, of that rank, sees.
///   fails  Runtime where there is none
int devices_of(const Api& api, std::int64_t rank);
///   fails  Runtime where `device` is none of so many
void check_device(int device, int devices, std::int64_t rank);

/// All communicators share one stream, so that their calls run in the order of the program, which
/// is the same on all ranks: two groups never wait for each other crosswise. They end together, by
/// end() or abort(), since NCCL waits there for the other ranks of the node. Used by one thread;
/// the cuts by any.
class Session {
 public:
  /// `patience`: how long a wait may last until the rank fails.
  ///   fails  Runtime where a session of this process has left something behind (abort())
  Session(const Api& api, LocalSide& side, const Peers& peers, std::int64_t rank, int device,
          std::chrono::milliseconds patience = backends::longest_wait());
  /// end()s.
  ~Session();
  Session& operator=(Session&&) = delete;

  LocalSide& side() { return side_; }

  /// Throws the peers' failure, if there is one; then no posted call continues.
  void check_peers();

  /// A communicator of `size` ranks. Waits for the others.
  ///   fails  Runtime when they do not arrive, or NCCL refuses
  Comm join(const UniqueId& id, std::int64_t size, std::int64_t rank);
  /// Collective over `parent`; null for kNoColor. Waits for all collectives before.
  Comm split(Comm parent, int color, int key);

  /// Makes NCCL's calls as one group on the stream, after all that the device was given so far.
  /// Returns when NCCL has taken them. `memory` holds all that they point into.
  ///   fails  as await()
  void post(Comm comm, std::span<const GroupCall> calls, std::shared_ptr<void> memory,
            const std::string& what);
  /// Marks what is posted. An event of it is given back there, or by let_go().
  InFlight& in_flight() { return *in_flight_; }
  /// Orders host or device after `event`.
  ///   fails  with the peers' failure, with NCCL's own error, or when the patience is over
  void await(Event event, const std::string& what);
  /// `event` is not awaited any more: `memory` is kept until the calls before it are over. Does not
  /// wait.
  void let_go(Event event, std::shared_ptr<void> memory) noexcept;

  /// Called repeatedly while the host waits for the device, and when it has waited: throws when the
  /// awaited event cannot occur, or was cut short.
  ///   fails  as await()
  void check_wait(std::chrono::milliseconds waited, const std::string& what);
  /// Returns when all posted calls are over.
  ///   fails  as await()
  void drain(const std::string& what);

  /// Ends all communicators, the newest first, on all ranks in that order: destroys them where
  /// nothing has failed, aborts them otherwise. Waits for the other ranks of the node.
  void end() noexcept;
  /// Aborts all communicators at once: calls in flight stop. If a thread is inside of NCCL, the
  /// rank waits for it, and aborts itself. Does not wait; by any thread.
  void cut() noexcept { alive_->cut(); }
  /// Rung, it does the same as soon as the peers have a failure().
  const std::shared_ptr<Bell>& bell() const { return lookout_->bell(); }
  /// The same, and waits until no posted call touches memory any more, and until the other ranks of
  /// the node have arrived. Calls that do not return in a few seconds are left behind: a thread
  /// inside of NCCL with its communicator, or the aborts; and the memory of all posted calls. The
  /// ranks of the node may wait for it until this process ends.
  void abort() noexcept;

 private:
  /// Waits until `over` holds, or something fails.
  void poll_until(const std::function<bool()>& over, const std::string& what);
  /// Makes a call that may wait for other ranks on a thread, and waits for it (Alive::begin_visit).
  Outcome visit(Comm comm, std::function<Outcome()> call, std::function<void(Alive::Comms&)> back,
                const std::string& what);
  /// Makes a group that waits for no other rank, on the rank's thread; a launch may wait for the
  /// device all the same, where CUDA_LAUNCH_BLOCKING is set for example.
  Outcome call_directly(Comm comm, std::span<const GroupCall> calls, const std::string& what);
  /// Reports to the others, aborts, throws.
  [[noreturn]] void give_up(const Error& reason);
  /// The same with NCCL's reason; throws that of another rank if it is the cause.
  [[noreturn]] void fail_call(Comm comm, Result result, const std::string& what);
  /// One of the two, unless the calls have succeeded.
  void check_outcome(Comm comm, const Outcome& outcome, const std::string& what);
  void hear_others();
  /// Waits for the device, at most for a few seconds: then the process ends.
  void synchronize();
  void end_one(Comm comm);
  void check_states(const std::string& what);

  LocalSide& side_;
  const Peers& peers_;
  const std::chrono::milliseconds patience_;
  std::map<Comm, std::set<Signature>> completed_;
  bool left_ = false;  ///< something has been left behind
  std::shared_ptr<const Lane> lane_;
  std::unique_ptr<InFlight> in_flight_;
  std::unique_ptr<Alive> alive_;
  std::unique_ptr<Lookout> lookout_;  ///< last: its thread uses the others
};

}  // namespace shardlab::nccl
