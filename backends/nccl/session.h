// session.h - the NCCL state of one process during one run: the stream of collectives, the
// communicators that are alive, and the way out when one of them or another rank fails.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl/api.h"
#include "backends/nccl/errand.h"
#include "backends/nccl/group.h"
#include "backends/nccl/local_side.h"
#include "backends/shared/patience.h"
#include "base/error.h"

namespace shardlab::nccl {

/// The session's link to the other processes: their failures, and reports to them. Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Once a rank has failed, or its process is gone: the error that this rank throws.
  virtual std::optional<Error> failure() const = 0;
  /// Called repeatedly while this rank waits for others, before it has waited for `patience` and
  /// after: may set the reason that failure() has from then on. By one thread at a time.
  virtual void wait_on(std::chrono::milliseconds waited, std::chrono::milliseconds patience) const {
    static_cast<void>(waited);
    static_cast<void>(patience);
  }
  /// Reports that this rank fails. Called before it aborts: NCCL's abort waits for the other ranks
  /// of its node, which get there only once they have received the failure.
  virtual void tell(const Error& reason) const = 0;
  /// Ends the process, because this rank, or its device, is inside of a call that never returns:
  /// says failure(), or else `what`. Any thread.
  [[noreturn]] virtual void end_process(const std::string& what) const = 0;
};

/// The largest number of posted calls that may be in flight when the next one is made on the rank's
/// own thread. CUDA keeps about 1,024 launches before a launch waits for the device; a call takes
/// up to five of them, for its kernel, for events and for waits.
inline constexpr std::uint64_t kMostInFlight = 128;

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
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

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
  /// Reached when all posted calls are over. Given back by release() or let_go().
  Event mark();
  void release(Event event);
  bool reached(Event event) const;
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
  /// Whether all marked calls are over.
  bool idle() const { return last_ == nullptr || reached(last_); }
  /// Returns when all posted calls are over.
  ///   fails  as await()
  void drain(const std::string& what);

  /// Ends all communicators, the newest first, on all ranks in that order: destroys them where
  /// nothing has failed, aborts them otherwise. Waits for the other ranks of the node.
  void end() noexcept;
  /// Aborts all communicators at once: calls in flight stop. If a thread is inside of NCCL, the
  /// rank waits for it, and aborts itself. Does not wait, except for a call that the rank is
  /// making; by any thread.
  void cut() noexcept;
  /// The same as soon as the peers have a failure(). Does not wait; by any thread, once.
  void cut_on_failure();
  /// The same, and waits until no posted call touches memory any more, and until the other ranks of
  /// the node have arrived. Calls that do not return in a few seconds are left behind: a thread
  /// inside of NCCL with its communicator, or the aborts; and the memory of all posted calls. The
  /// ranks of the node may wait for it until this process ends.
  void abort() noexcept;

 private:
  /// Waits until `over` holds, or something fails.
  void poll_until(const std::function<bool()>& over, const std::string& what);
  /// Makes a call that may wait for other ranks on a thread, and waits for it. The call uses
  /// `comm`; `back` is called when it has returned, under the mutex.
  Outcome visit(Comm comm, std::function<Outcome()> call, std::function<void()> back,
                const std::string& what);
  /// The visit is over: everything that it has made or ended is known.
  void come_back();
  /// The visit did not return.
  void leave_behind();
  /// Makes a group that waits for no other rank, on the rank's thread; a launch may wait for the
  /// device all the same, where CUDA_LAUNCH_BLOCKING is set for example.
  Outcome call_directly(Comm comm, std::span<const GroupCall> calls, const std::string& what);
  /// Puts a new communicator, where there is one, among those that are alive. For visit().
  std::function<void()> joins(std::shared_ptr<Comm> made);
  /// Makes a thread abort all that are alive, but for that of the visit. With the mutex held.
  void abort_alive();
  /// The same, and nothing is called any more.
  void abort_rest();
  void await_room(const std::string& what);
  void count_posted(std::size_t calls);
  Event take_event();
  void record(Event event);
  /// Reports to the others, aborts, throws.
  [[noreturn]] void give_up(const Error& reason);
  /// The same with NCCL's reason; throws that of another rank if it is the cause.
  [[noreturn]] void fail_call(Comm comm, Result result, const std::string& what);
  /// One of the two, unless the calls have succeeded.
  void check_outcome(Comm comm, const Outcome& outcome, const std::string& what);
  void hear_others();
  /// The watching thread: checks in place of the rank while it does not check itself.
  void keep_watch();
  void ask_for_rank(std::chrono::milliseconds waited, CudaError device);
  /// Whether a thread is inside of a call of this communicator. With the mutex held.
  bool is_used(Comm comm) const {
    return comm != nullptr && (inside_ == comm || (visit_ && visit_->comm == comm));
  }
  /// How long the calls of a visit may take once a failure is known.
  std::chrono::milliseconds visit_takes() const;
  /// Waits for the device, at most for a few seconds: then the process ends.
  void synchronize();
  void end_one(Comm comm);
  Result state_of(Comm comm);
  void check_states(const std::string& what);
  void drop_reached();

  struct Kept {
    Event event;
    std::shared_ptr<void> memory;
  };
  struct Visit {
    Comm comm;
    std::function<void()> back;
  };
  struct Milestone {
    std::uint64_t posted;  ///< calls, of which the last is before the event
    Event event;
  };

  LocalSide& side_;
  const Peers& peers_;
  const std::chrono::milliseconds patience_;
  std::mutex asking_;                     ///< guards Peers::wait_on
  std::atomic<std::uint64_t> asked_ = 0;  ///< number of checks of the rank
  std::shared_ptr<const Lane> lane_;
  std::vector<Event> free_;
  Event last_ = nullptr;  ///< recorded; events are recorded again for later marks only
  std::vector<Kept> kept_;
  std::map<Comm, std::set<Signature>> completed_;
  std::unique_ptr<Errand> visits_ = std::make_unique<Errand>();
  std::uint64_t posted_ = 0;  ///< calls
  std::uint64_t over_ = 0;    ///< of these are known to be over
  std::deque<Milestone> milestones_;
  bool left_ = false;  ///< something has been left behind
  /// Guards the following, and questions about states. No call of NCCL that may wait is made under
  /// it.
  std::mutex mutex_;
  std::vector<Comm> alive_;
  std::optional<Visit> visit_;  ///< under way; set and taken by the rank's thread only
  Comm inside_ = nullptr;       ///< of a group that the rank's thread makes itself
  bool aborted_ = false;
  bool ended_ = false;
  std::vector<std::unique_ptr<Errand>> aborts_;  ///< under way
  std::thread hearing_;
  std::condition_variable ending_;
  std::thread watcher_;
};

}  // namespace shardlab::nccl
