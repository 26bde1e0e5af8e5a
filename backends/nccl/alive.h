// alive.h - the communicators of a process that are alive, the calls that are inside of them, and
// their common end by an abort.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/nccl/errand.h"
#include "backends/nccl/group.h"

namespace shardlab::nccl {

/// Any thread reads, and cuts; the rank's own does the rest.
class Alive {
 public:
  using Comms = std::vector<Comm>;

  /// `patience`: of a wait; a visit takes less, once a failure is known.
  Alive(std::shared_ptr<const Lane> lane, std::chrono::milliseconds patience);

  Comms all() const {
    const std::lock_guard lock(mutex_);
    return alive_;
  }
  bool aborted() const {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }
  /// Whether nothing is left to be ended.
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return alive_.empty() && aborts_.empty();
  }
  /// Whether the rank is inside of a group that it makes itself.
  bool rank_is_inside() const {
    const std::lock_guard lock(mutex_);
    return inside_ != nullptr;
  }
  /// NCCL's own state. Success where a call is inside: whoever makes it reports it.
  Result state_of(Comm comm) const;
  /// The state of a call in progress, of the rank's own communicator.
  Result progress_of(Comm comm) const;
  /// NCCL's text for its last error there; may be empty.
  std::string last_error(Comm comm) const;

  /// The rank itself begins a group of calls, and has ended it. False once all are aborted.
  bool enter(Comm comm);
  bool come_out() { return enter(nullptr); }
  /// Makes a call that may wait for other ranks on a thread. It uses `comm`; `back` then changes
  /// the list of those that are alive. False once all are aborted.
  bool begin_visit(Comm comm, std::function<Outcome()> call, std::function<void(Comms&)> back);
  bool visit_is_over() const { return visits_->over(); }
  /// After that: the call's outcome, kRemoteError if all were aborted meanwhile.
  Outcome end_visit();

  /// Aborts all at once on a thread: calls in flight stop. While a visit is under way only its rank
  /// aborts, which receives the failure there. Does not wait.
  void cut() noexcept;
  /// The same, and waits for visit and aborts, some seconds each. Whether anything did not return
  /// then or before, and was left behind.
  bool abort() noexcept;
  /// The longest time that abort() takes.
  std::chrono::milliseconds abort_takes() const { return 3 * visit_takes_; }

 private:
  struct Visit {
    Comm comm;
    std::function<void(Comms&)> back;
    std::shared_ptr<Outcome> outcome;
  };

  /// With the mutex held, as abort_alive().
  bool is_used(Comm comm) const {
    return comm != nullptr && (inside_ == comm || (visit_ && visit_->comm == comm));
  }
  void abort_alive();
  void come_back();
  void leave_visit();

  const std::shared_ptr<const Lane> lane_;
  const std::chrono::milliseconds visit_takes_;
  std::unique_ptr<Errand> visits_ = std::make_unique<Errand>();
  bool left_ = false;  ///< something has been left behind
  /// Guards the following, and questions about states. No call of NCCL that may wait is made under
  /// it.
  mutable std::mutex mutex_;
  Comms alive_;
  std::optional<Visit> visit_;  ///< under way; set and taken by the rank's thread only
  Comm inside_ = nullptr;       ///< of a group that the rank's thread makes itself
  bool aborted_ = false;
  std::vector<std::unique_ptr<Errand>> aborts_;  ///< under way
};

}  // namespace shardlab::nccl
