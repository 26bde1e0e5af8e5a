// Yields at first and sleeps later: short waits stay short, long ones cost no processor.
#include "backends/shared/patience.h"

#include <sched.h>

#include <cstdlib>
#include <thread>

namespace shardlab::backends {

namespace {

constexpr int kYields = 200;

std::chrono::milliseconds seconds_from(const char* variable, double usual) {
  const char* named = std::getenv(variable);
  const double seconds = named == nullptr ? 0 : std::strtod(named, nullptr);
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(1000 * (seconds > 0 ? seconds : usual)));
}

}  // namespace

void Patience::pause() {
  if (++pauses_ < kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::chrono::milliseconds longest_wait() { return seconds_from("SHARDLAB_PATIENCE", 300); }
std::chrono::milliseconds longest_join() { return seconds_from("SHARDLAB_JOIN_SECONDS", 60); }

}  // namespace shardlab::backends
