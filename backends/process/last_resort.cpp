// A thread that sleeps until the call is over.
#include "backends/process/last_resort.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace shardlab::process {

LastResort::LastResort(std::chrono::milliseconds most, std::string reason)
    : watching_([this, most, reason = std::move(reason)] { watch(most, reason); }) {}

LastResort::~LastResort() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  watching_.join();
}

void LastResort::watch(std::chrono::milliseconds most, const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, most, [this] { return over_; })) return;
  fmt::print(stderr, "error: {}\n", reason);
  std::fflush(nullptr);
  _exit(1);
}

}  // namespace shardlab::process
