// lookout.h - the thread of a process that looks for failures while its rank does not, and the link
// to the other processes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backends/nccl/alive.h"
#include "base/error.h"

namespace shardlab::nccl {

/// A session's link to the other processes: their failures, and reports to them. Thread-safe.
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

/// Wakes a lookout, and outlives it. Any thread.
class Bell {
 public:
  /// The peers have a failure, or have one soon: all communicators are cut then.
  void ring();

 private:
  friend class Lookout;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false, ended_ = false;
};

/// Checks in place of the rank while it does not check itself, and cuts on a failure.
class Lookout {
 public:
  Lookout(std::shared_ptr<const Lane> lane, Alive& alive, const Peers& peers,
          std::chrono::milliseconds patience);
  ~Lookout();
  Lookout& operator=(Lookout&&) = delete;

  const std::shared_ptr<Bell>& bell() const { return bell_; }
  /// The rank checks itself, and has waited so long.
  void rank_waits(std::chrono::milliseconds waited) {
    ++asked_;
    ask_peers(waited);
  }

 private:
  void watch();
  bool wait(bool aborted, bool& rung);
  void ask_peers(std::chrono::milliseconds waited);
  void ask_for_rank(std::chrono::milliseconds waited, CudaError device);

  const std::shared_ptr<const Lane> lane_;
  Alive& alive_;
  const Peers& peers_;
  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::mutex asking_;                     ///< guards Peers::wait_on
  std::atomic<std::uint64_t> asked_ = 0;  ///< number of checks of the rank
  std::thread watching_;
};

}  // namespace shardlab::nccl
