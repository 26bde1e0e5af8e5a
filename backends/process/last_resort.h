// last_resort.h - a limit for calls of other libraries that wait for other processes and cannot be
// left: ends the process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace shardlab {

/// Exit code of a process that ends only because another one failed, was lost, or fell silent.
inline constexpr int kOnlyByOthers = 4;

}  // namespace shardlab

namespace shardlab::process {

/// Unless it is destroyed within `most`, prints `error: REASON`, unless that is empty, writes it
/// for the launcher (places.h), and ends the process with exit code 2, without calling libraries:
/// they would wait.
class LastResort {
 public:
  /// `reason` is called when the time is over, on another thread.
  LastResort(std::chrono::milliseconds most, std::function<std::string()> reason);
  ~LastResort();
  LastResort& operator=(LastResort&&) = delete;

 private:
  void watch(std::chrono::milliseconds most, const std::function<std::string()>& reason);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watching_;
};

}  // namespace shardlab::process
