// last_resort.h - a limit for calls of other libraries that wait for other processes and cannot be
// left: ends the process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace shardlab::process {

/// Unless it is destroyed within `most`, prints `error: REASON` and ends the process with exit code
/// 1, without calling libraries: they would wait.
class LastResort {
 public:
  LastResort(std::chrono::milliseconds most, std::string reason);
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

 private:
  void watch(std::chrono::milliseconds most, const std::string& reason);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watching_;
};

}  // namespace shardlab::process
