// Memory that is left behind is in a list that nothing ever destroys, also not the end of the
// process: the thread that uses it may still run then.
#include "backends/nccl/errand.h"

#include <mutex>
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

Errand::Errand(std::function<void()> body)
    : task_(std::make_shared<Task>(std::move(body))), thread_([task = task_] {
        task->body();
        task->over = true;
      }) {}

Errand::~Errand() { join(); }

void Errand::join() {
  if (thread_.joinable()) thread_.join();
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
  left_behind().all.push_back(std::move(memory));
}

bool something_is_left() {
  const std::lock_guard lock(left_behind().mutex);
  return !left_behind().all.empty();
}

}  // namespace shardlab::nccl
