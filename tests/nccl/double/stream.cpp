// A queue and a thread. An event remembers how often it was recorded and how far the stream has
// come, as a CUDA event does that is used again.
#include "tests/nccl/double/stream.h"

#include <algorithm>
#include <set>
#include <utility>

namespace shardlab::nccl_double {

namespace {

// The streams of this process.
struct Streams {
  std::mutex mutex;
  std::set<const StreamState*> all;
};
// Threads that were left behind may look while the process ends.
Streams& streams() {
  static Streams& never_destroyed = *new Streams;
  return never_destroyed;
}

}  // namespace

std::uint64_t EventState::record() {
  const std::lock_guard lock(mutex_);
  return ++recorded_;
}

void EventState::reach(std::uint64_t record) {
  const std::lock_guard lock(mutex_);
  if (record > reached_) reached_ = record;
  changed_.notify_all();
}

bool EventState::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_ >= recorded_;
}

std::uint64_t EventState::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

void EventState::await(std::uint64_t record) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_ >= record; });
}

StreamState::StreamState() : thread_([this] { run(); }) {
  const std::lock_guard lock(streams().mutex);
  streams().all.insert(this);
}

StreamState::~StreamState() {
  {
    const std::lock_guard lock(streams().mutex);
    streams().all.erase(this);
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamState::push(std::function<void()> work) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_.size() + (busy_ ? 1 : 0) < kMostPending; });
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void StreamState::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_.empty() && !busy_; });
}

bool StreamState::idle() const {
  const std::lock_guard lock(mutex_);
  return work_.empty() && !busy_;
}

bool StreamState::all_idle() {
  const std::lock_guard lock(streams().mutex);
  return std::ranges::all_of(streams().all, &StreamState::idle);
}

void StreamState::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace shardlab::nccl_double
