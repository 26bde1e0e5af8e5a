// Yields at first and sleeps later: short waits stay short, long ones cost no processor.
#include "backends/nccl/patience.h"

#include <sched.h>

#include <thread>

namespace shardlab::nccl {

namespace {

constexpr int kYields = 200;

}  // namespace

void Patience::pause() {
  if (++pauses_ < kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace shardlab::nccl
