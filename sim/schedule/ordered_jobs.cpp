// Workers take jobs by a counter; the calling thread hands out results in order as soon as the next
// one is there.
#include "sim/schedule/ordered_jobs.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace shardlab {

void run_in_order(std::size_t count, std::size_t workers,
                  const std::function<void(std::size_t)>& job,
                  const std::function<void(std::size_t)>& done) {
  if (workers <= 1) {
    for (std::size_t i = 0; i < count; ++i) {
      job(i);
      done(i);
    }
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::condition_variable one_ended;
  std::vector<std::uint8_t> ended(count, 0);
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < std::min(workers, count); ++worker) {
    threads.emplace_back([&] {
      for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        job(i);
        const std::lock_guard lock(mutex);
        ended[i] = 1;
        one_ended.notify_one();
      }
    });
  }
  for (std::size_t i = 0; i < count; ++i) {
    {
      std::unique_lock lock(mutex);
      one_ended.wait(lock, [&] { return ended[i] != 0; });
    }
    done(i);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shardlab
