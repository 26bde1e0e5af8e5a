// errand.h - a thread for calls that wait for other ranks inside of NCCL, and may never return.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace shardlab::nccl {

/// One thread, from the beginning to the end of one function. Used by one other thread.
class Errand {
 public:
  /// Begins at once. `body` throws nothing, and owns all that it uses: it may outlive everything
  /// but the process.
  explicit Errand(std::function<void()> body);
  /// join()s, where it was not left.
  ~Errand();
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  bool over() const { return task_->over; }
  void join();
  /// Waits until it is over, or for `most`; whether it is.
  bool wait(std::chrono::milliseconds most) const;
  /// It is not awaited any more: it may run until the process ends, and the memory that it uses
  /// stays.
  void leave();

 private:
  struct Task {
    explicit Task(std::function<void()> given) : body(std::move(given)) {}
    const std::function<void()> body;
    std::atomic<bool> over{false};
  };

  const std::shared_ptr<Task> task_;
  std::thread thread_;
};

/// Keeps `memory` until the process ends.
void keep_for_ever(std::shared_ptr<void> memory);
/// Whether anything has been left or kept so in this process.
bool something_is_left();

}  // namespace shardlab::nccl
