// A large collective is cut into jobs that the ranks of the group take from a counter. Waking
// threads costs time, so that it is only done from a megabyte on, for at most one rank per thread.
#include "backends/threads/crew.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace shardlab::threads {

namespace {

// Copying so many bytes takes several times as long as waking a thread.
constexpr std::int64_t kLeastBytes = 1 << 20;

std::int64_t processors() {
  static const auto count = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  return count;
}

}  // namespace

bool Crew::pays(std::int64_t bytes) const {
  return bytes >= kLeastBytes && scheduler_.thread_count() > 1 && processors() > 1;
}

void Crew::run(std::size_t count, const std::function<void(std::size_t)>& piece) {
  Job job{.piece = piece, .count = count, .owner = scheduler_.current()};
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    open_.store(true, std::memory_order_release);
  }
  call_for_help();
  work(job);
  std::unique_lock lock(mutex_);
  job_ = nullptr;
  open_.store(false, std::memory_order_release);
  while (job.helping > 0) {
    lock.unlock();
    scheduler_.park();
    lock.lock();
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

// One rank of each other thread, of as many threads as there are processors. All ranks have
// entered: those that do not wait take it for a spurious wake.
void Crew::call_for_help() const {
  std::vector<std::int64_t> threads = {scheduler_.thread_of(scheduler_.current())};
  std::vector<std::int64_t> helpers;
  for (const std::int64_t rank : ranks_) {
    if (static_cast<std::int64_t>(threads.size()) >= processors()) break;
    const std::int64_t thread = scheduler_.thread_of(rank);
    if (std::ranges::find(threads, thread) != threads.end()) continue;
    threads.push_back(thread);
    helpers.push_back(rank);
  }
  scheduler_.unpark_all(helpers);
}

void Crew::join() {
  Job* job = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (job_ == nullptr) return;
    job = job_;
    ++job->helping;
  }
  work(*job);
  const std::int64_t owner = job->owner;
  {
    const std::lock_guard lock(mutex_);
    if (--job->helping > 0) return;
  }
  scheduler_.unpark(owner);
}

void Crew::work(Job& job) {
  try {
    for (;;) {
      const std::size_t index = job.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= job.count) return;
      job.piece(index);
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    job.failure = std::current_exception();
  }
}

}  // namespace shardlab::threads
