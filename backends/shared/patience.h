// patience.h - waits for what another process or a device does, and how long they may last.
#pragma once

#include <chrono>

namespace shardlab::backends {

/// Lets others run, longer the longer it lasts, and knows how long that is.
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

/// A rank fails after its last messages, which may be on their way so much longer: whoever gets
/// them goes on as far as where ranks share memory, and fails there of its own if it would.
inline constexpr std::chrono::milliseconds kLastMessages{200};

/// How long a rank waits for others until it fails: SHARDLAB_PATIENCE, in seconds, else 300 s.
std::chrono::milliseconds longest_wait();
/// How long the ranks of a job may take to come: SHARDLAB_JOIN_SECONDS, else 60 s.
std::chrono::milliseconds longest_join();

}  // namespace shardlab::backends
