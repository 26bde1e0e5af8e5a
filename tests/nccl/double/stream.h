// stream.h - CUDA's streams and events on the host: a stream runs its work in order, on a thread of
// its own, and may be any time behind the caller. Any thread may call.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace shardlab::nccl_double {

/// Counts how often it was recorded, and how many of these records were reached.
class EventState {
 public:
  std::uint64_t record();
  void reach(std::uint64_t record);
  bool reached() const;
  std::uint64_t recorded() const;
  void await(std::uint64_t record);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0;
  std::uint64_t reached_ = 0;
};

/// The number of pending pieces of work that a device takes of a stream; the next launch waits.
inline constexpr std::size_t kMostPending = 1024;

class StreamState {
 public:
  StreamState();
  /// Runs the remaining work.
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  /// Waits while as much is pending as a device takes.
  void push(std::function<void()> work);
  void drain();
  bool idle() const;
  /// Whether all streams of this process are.
  static bool all_idle();

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace shardlab::nccl_double
