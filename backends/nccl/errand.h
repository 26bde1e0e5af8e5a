// errand.h - a thread for calls that wait for other ranks inside of NCCL, and may never return.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace shardlab::nccl {

/// One thread for one function after another. Used by one other thread.
class Errand {
 public:
  Errand();
  /// Waits for the function under way, unless it was left.
  ~Errand();
  Errand& operator=(Errand&&) = delete;

  /// Runs `body`, which throws nothing and owns all that it uses: it may outlive everything but the
  /// process. The one before is over.
  void begin(std::function<void()> body);
  bool over() const { return task_->over; }
  /// Waits until it is over, or for `most`; whether it is.
  bool wait(std::chrono::milliseconds most) const;
  /// It is not awaited any more: it may run until the process ends, and the memory that it uses
  /// stays. The process then ends without the destructors of libraries, which would wait for it.
  void leave();

 private:
  struct Task {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> body;  ///< to begin
    bool ends = false;
    std::atomic<bool> over{true};
  };

  const std::shared_ptr<Task> task_;
  std::thread thread_;
};

/// Keeps `memory` until the process ends.
void keep_for_ever(std::shared_ptr<void> memory);
/// Whether anything has been left or kept so in this process.
bool something_is_left();

}  // namespace shardlab::nccl
