// deadline.h - until when a wait of the double may last without anything moving.
#pragma once

#include <chrono>
#include <cstdint>

namespace shardlab::nccl_double {

/// SHARDLAB_NCCL_DOUBLE_DEADLINE_MS, 10 s by default.
std::int64_t deadline_milliseconds();

/// Begins when it is made.
class Deadline {
 public:
  Deadline() { restart(); }
  void restart();
  bool passed() const;

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace shardlab::nccl_double
