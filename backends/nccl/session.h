// session.h - what one process holds of NCCL during one run: the stream of collectives, the
// communicators that are alive, and the way out when one of them or another rank fails.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl/api.h"
#include "backends/nccl/local_side.h"
#include "backends/shared/patience.h"
#include "base/error.h"

namespace shardlab::nccl {

/// What the session knows of the other processes, and tells them. Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Once a rank has failed, or its process is gone: what this rank throws.
  virtual std::optional<Error> failure() const = 0;
  /// That this rank gives up. Before it aborts: NCCL's abort waits for the other ranks of its node,
  /// which must hear of the failure to come.
  virtual void tell(const Error& reason) const = 0;
};

/// All communicators share one stream, so that their calls run in the order of the program, which
/// is the same on all ranks: two groups never wait for each other crosswise. They end together, by
/// end() or abort(), since NCCL waits there for the other ranks of the node. Used by one thread;
/// the cuts by any.
class Session {
 public:
  /// `patience`: how long a wait may last until the rank fails.
  Session(const Api& api, LocalSide& side, const Peers& peers, std::int64_t rank, int device,
          std::chrono::milliseconds patience = backends::longest_wait());
  /// end()s.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Api& api() const { return api_; }
  LocalSide& side() { return side_; }
  Stream stream() const { return stream_; }
  std::int64_t rank() const { return rank_; }

  /// Throws the peers' failure, if there is one; then nothing of what was posted goes on.
  void check_peers();

  /// A communicator of `size` ranks. Waits for the others.
  ///   fails  Runtime when they do not come, or NCCL refuses
  Comm join(const UniqueId& id, std::int64_t size, std::int64_t rank);
  /// Collective over `parent`; null for kNoColor. Waits for all collectives before.
  Comm split(Comm parent, int color, int key);

  /// Makes NCCL's calls of `calls` as one group on the stream, after all that the device has been
  /// asked for so far. Returns when NCCL has taken them.
  void post(Comm comm, const std::function<void()>& calls, const std::string& what);
  /// Reached when all that has been posted is over. Given back by release() or let_go().
  Event mark();
  void release(Event event);
  bool reached(Event event) const;
  /// Orders host or device after `event`.
  ///   fails  with the peers' failure, with NCCL's own error, or when the patience is over
  void await(Event event, const std::string& what);
  /// Nobody waits for `event` any more: `memory` is kept until what is before it is over. Does not
  /// wait.
  void let_go(Event event, std::shared_ptr<void> memory) noexcept;

  /// Asked again and again while the host waits for the device, and when it has waited: throws when
  /// what it waits for will not come, or was cut short.
  ///   fails  as await()
  void check_wait(std::chrono::milliseconds waited, const std::string& what);
  /// Whether all that was marked is over.
  bool idle() const { return last_ == nullptr || reached(last_); }
  /// Returns when all that was posted is over.
  ///   fails  as await()
  void drain(const std::string& what);

  /// Ends all communicators, the newest first, on all ranks in that order: destroys them where
  /// nothing has failed, aborts them otherwise. Waits for the other ranks of the node.
  void end() noexcept;
  /// Aborts all communicators at once: calls in flight stop. Does not wait; by any thread.
  void cut() noexcept;
  /// The same as soon as the peers' failure() says so. Does not wait; by any thread, once.
  void cut_on_failure();
  /// The same, and waits until nothing of what was posted touches memory any more, and until the
  /// other ranks of the node have come.
  void abort() noexcept;

 private:
  /// Waits until `over` holds, or something fails.
  void poll_until(const std::function<bool()>& over, const std::string& what);
  /// Waits until NCCL has done what `comm` was asked for.
  void poll(Comm comm, const std::string& call);
  /// Tells the others, aborts, throws.
  [[noreturn]] void give_up(const Error& reason);
  /// The same with NCCL's reason; throws that of another rank if it is the cause.
  [[noreturn]] void fail_call(Comm comm, Result result, const std::string& what);
  void hear_others();
  void finalize(Comm comm);
  Result state_of(Comm comm);
  void check_states(const std::string& what);
  void abort_all(const std::vector<Comm>& comms) const;
  void drop_reached();

  struct Kept {
    Event event;
    std::shared_ptr<void> memory;
  };

  const Api& api_;
  LocalSide& side_;
  const Peers& peers_;
  const std::int64_t rank_;
  const int device_;
  const std::chrono::milliseconds patience_;
  int version_ = 0;
  Stream stream_ = nullptr;
  std::vector<Event> free_;
  Event last_ = nullptr;  ///< recorded; events are recorded again for later marks only
  std::vector<Kept> kept_;
  std::mutex mutex_;  ///< guards the following, and NCCL's calls, but for those that wait for ranks
  std::vector<Comm> alive_;
  bool aborted_ = false;
  bool ended_ = false;
  std::thread aborting_;
  std::thread hearing_;
};

}  // namespace shardlab::nccl
