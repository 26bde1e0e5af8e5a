// Memory that is left behind is in a list that nothing ever destroys, also not the end of the
// process: the thread that uses it may still run then.
#include "backends/nccl/errand.h"

#include <unistd.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "backends/shared/patience.h"

namespace shardlab::nccl {

namespace {

struct LeftBehind {
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> all;
};
LeftBehind& left_behind() {
  static auto& never_destroyed = *new LeftBehind;
  return never_destroyed;
}

}  // namespace

Errand::Errand()
    : task_(std::make_shared<Task>()), thread_([task = task_] {
        std::unique_lock lock(task->mutex);
        while (true) {
          task->changed.wait(lock, [&] { return task->ends || task->body != nullptr; });
          if (task->body == nullptr) return;
          lock.unlock();
          task->body();
          lock.lock();
          task->body = nullptr;
          task->over = true;
        }
      }) {}

Errand::~Errand() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(task_->mutex);
    task_->ends = true;
  }
  task_->changed.notify_all();
  thread_.join();
}

void Errand::begin(std::function<void()> body) {
  {
    const std::lock_guard lock(task_->mutex);
    task_->over = false;
    task_->body = std::move(body);
  }
  task_->changed.notify_all();
}

bool Errand::wait(std::chrono::milliseconds most) const {
  backends::Patience patience;
  while (!over() && patience.waited() < most) patience.pause();
  return over();
}

void Errand::leave() {
  keep_for_ever(task_);
  thread_.detach();
}

void keep_for_ever(std::shared_ptr<void> memory) {
  const std::lock_guard lock(left_behind().mutex);
#ifdef __GLIBC__
  // Libraries would wait for the thread in their destructors.
  const auto end = [](int code, void*) {
    std::fflush(nullptr);
    _exit(code);
  };
  if (left_behind().all.empty()) on_exit(end, nullptr);
#endif
  left_behind().all.push_back(std::move(memory));
}

bool something_is_left() {
  const std::lock_guard lock(left_behind().mutex);
  return !left_behind().all.empty();
}

}  // namespace shardlab::nccl
