// session.h - what one process holds of NCCL during one run: the stream of collectives, the
// communicators that are alive, and the way out when one of them or another rank fails.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/nccl/api.h"
#include "backends/nccl/local_side.h"
#include "base/error.h"

namespace shardlab::nccl {

/// What the session knows of the other processes. Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Once a rank has failed, or its process is gone: what this rank throws.
  virtual std::optional<Error> failure() const = 0;
};

/// All communicators share one stream, so that their calls run in the order of the program, which
/// is the same on all ranks: two groups never wait for each other crosswise. Used by one thread;
/// cut() by any.
class Session {
 public:
  Session(const Api& api, LocalSide& side, const Peers& peers, std::int64_t rank, int device);
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
  /// Ends a communicator that nobody uses any more. Never throws.
  void end(Comm comm) noexcept;

  /// Makes NCCL's calls of `calls` as one group on the stream, after all that the device has been
  /// asked for so far. Returns when NCCL has taken them.
  void post(Comm comm, const std::function<void()>& calls, const std::string& what);
  /// Reached when all that has been posted is over. Given back by release().
  Event mark();
  void release(Event event);
  bool reached(Event event) const;
  /// Orders host or device after `event`.
  ///   fails  with the peers' failure, or Runtime with NCCL's own error
  void await(Comm comm, Event event, const std::string& what);
  /// As await, for memory that is let go of, whatever happened.
  void settle(Event event) noexcept;

  /// Ends all communicators at once: calls in flight stop. Never throws, does not wait; by any
  /// thread.
  void cut() noexcept;
  /// The same, and waits until nothing of what was posted touches memory any more.
  void abort() noexcept;

 private:
  /// await() of a mark set now.
  void await_posted(Comm comm, const std::string& what);
  /// Waits until NCCL has done what it was asked for.
  void poll(Comm comm, const std::string& call);
  /// Throws why NCCL failed.
  [[noreturn]] void fail_call(Comm comm, Result result, const std::string& what);
  /// False when what is in flight did not end well.
  bool finalize(Comm comm) noexcept;
  Result state_of(Comm comm);

  const Api& api_;
  LocalSide& side_;
  const Peers& peers_;
  const std::int64_t rank_;
  Stream stream_ = nullptr;
  std::vector<Event> idle_;
  std::mutex mutex_;  ///< guards the following, and NCCL's calls
  std::vector<Comm> alive_;
  bool aborted_ = false;
};

}  // namespace shardlab::nccl
