// deadline.h - until when a wait of the double may last without anything moving.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

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

/// Ends the process: prints "nccl double: TEXT; NCCL would wait for ever".
[[noreturn]] void hang(std::string_view text);
/// Ends the process: prints "nccl double: TEXT". For calls on which NCCL's behaviour is undefined.
[[noreturn]] void forbid(std::string_view text);

}  // namespace shardlab::nccl_double
