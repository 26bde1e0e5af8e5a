// patience.h - waits for what another process or the device does.
#pragma once

#include <chrono>

namespace shardlab::nccl {

/// Lets others run, longer the longer it lasts, and knows how long that is.
class Patience {
 public:
  Patience() : begin_(Clock::now()) {}
  void pause();
  bool longer_than(std::chrono::milliseconds limit) const { return Clock::now() - begin_ > limit; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  int pauses_ = 0;
};

}  // namespace shardlab::nccl
