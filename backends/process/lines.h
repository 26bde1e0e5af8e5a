// lines.h - the connections of one process, and the thread that waits on them. No send waits: what
// a peer does not take is kept and goes out from the thread, so that it always reads, and answers.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backends/process/socket.h"

namespace shardlab::process {

/// Lines are numbered from 0. Any thread sends.
class Lines {
 public:
  /// Told of what comes, on the thread.
  struct Ears {
    /// Frames of one line, in their order; none: a part of one came. Not open: nothing comes from
    /// there any more.
    std::function<void(std::size_t line, const std::vector<Frame>& frames, bool open)> hear;
    /// After all lines that had something, and once a `tick` at least.
    std::function<void()> pause;
  };
  /// The thread begins at once. `tick` below 0: no ticks.
  Lines(std::vector<Connection> connections, std::chrono::milliseconds tick, Ears ears);
  /// stop()s.
  ~Lines();
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  void send(std::size_t line, std::uint32_t type, std::string_view payload);
  /// When bytes of that line last went out or came in. An answer may follow much that is on its
  /// way: whoever moves bytes is alive. Any thread.
  Clock::time_point moved(std::size_t line) const {
    return Clock::time_point(Clock::duration(moved_[line].load(std::memory_order_relaxed)));
  }
  /// Ends the thread, and sends everybody this last frame.
  void stop(std::uint32_t type, std::chrono::milliseconds most);

 private:
  void listen();
  void wake();
  void take_wakes();
  bool take_in(std::size_t line);
  void flush(std::vector<pollfd>& entries);
  void move(std::size_t line);

  std::vector<Connection> connections_;
  std::vector<std::atomic<Clock::rep>> moved_;  ///< by line, as ticks of the clock
  const std::chrono::milliseconds tick_;
  const Ears ears_;
  std::mutex sending_;
  std::atomic<bool> stopping_{false};
  std::pair<Descriptor, Descriptor> wake_;  ///< a pipe: a byte wakes listen()
  std::thread listening_;                   ///< last: it uses everything above
};

}  // namespace shardlab::process
