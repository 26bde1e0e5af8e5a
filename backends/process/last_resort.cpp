// A thread that sleeps until the call is over.
#include "backends/process/last_resort.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "backends/process/places.h"
#include "backends/process/presence.h"

namespace shardlab::process {

LastResort::LastResort(std::chrono::milliseconds most, std::function<std::string()> reason)
    : watching_([this, most, reason = std::move(reason)] { watch(most, reason); }) {}

LastResort::~LastResort() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  watching_.join();
}

void LastResort::watch(std::chrono::milliseconds most, const std::function<std::string()>& reason) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, most, [this] { return over_; })) return;
  const std::string text = reason();
  if (!text.empty()) {
    fmt::print(stderr, "error: {}\n", text);
    tell_spoken();
  }
  write_own_error(text);
  std::fflush(nullptr);
  _exit(2);
}

}  // namespace shardlab::process
