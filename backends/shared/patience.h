// patience.h - waits for another process or a device, and their longest times.
#pragma once

#include <chrono>

namespace shardlab::backends {

/// Lets others run, longer the longer it lasts, and measures the time.
class Patience {
 public:
  Patience() : begin_(Clock::now()) {}
  void pause();
  std::chrono::milliseconds waited() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  int pauses_ = 0;
};

/// A rank fails after its last messages, which may still be in flight for this long: a rank that
/// receives them continues as far as it would with shared memory, and fails there of its own if it
/// would.
inline constexpr std::chrono::milliseconds kLastMessages{200};

/// The longest wait of a rank for others until it fails: SHARDLAB_PATIENCE, in seconds, else 300 s.
std::chrono::milliseconds longest_wait();
/// The longest time for the ranks of a job to arrive: SHARDLAB_JOIN_SECONDS, else 60 s.
std::chrono::milliseconds longest_join();

}  // namespace shardlab::backends
