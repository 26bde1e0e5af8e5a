// stopwatch.h - elapsed time: for people and CI systems, and for work that has a limit of time.
#pragma once

#include <chrono>

namespace shardlab {

/// Runs from its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace shardlab
