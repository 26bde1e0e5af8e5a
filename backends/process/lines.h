// lines.h - the connections of one process, and the thread that waits on them. No send waits: bytes
// that a peer does not take are kept and sent later by the thread, so that it always reads, and
// answers.
#pragma once

#include <poll.h>
#include <chrono>
#include <cstdint>
#include <string_view>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backends/process/socket.h"

namespace shardlab::process {

enum class LineState : std::uint8_t {
  kOpen,
  kClosed,    ///< by the peer, or because of a message that makes no sense
  kNoMemory,  ///< here, for what the peer has sent
};

/// Lines are numbered from 0. Any thread sends.
class Lines {
 public:
  /// Functions that are called on the thread for received data.
  struct Ears {
    /// Frames of one line, in their order; none: a part of one arrived. Unless it is open, nothing
    /// arrives from there any more.
    std::function<void(std::size_t line, const std::vector<Frame>& frames, LineState state)> hear;
    /// After all lines that had something, and once a `tick` at least.
    std::function<void()> pause;
  };
  /// The thread begins at once. `tick` below 0: no ticks.
  Lines(std::vector<Connection> connections, std::chrono::milliseconds tick, Ears ears);
  /// stop()s.
  ~Lines();
  Lines& operator=(Lines&&) = delete;

  void send(std::size_t line, std::uint32_t type, std::string_view payload);
  /// The last time when bytes of that line were sent or received. An answer may follow much data in
  /// flight: a process that moves bytes is alive. Any thread.
  Clock::time_point moved(std::size_t line) const {
    return Clock::time_point(Clock::duration(moved_[line].load(std::memory_order_relaxed)));
  }
  /// Ends the thread, and sends this last frame to all.
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
