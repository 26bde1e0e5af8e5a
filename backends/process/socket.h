// socket.h - TCP connections that carry framed messages. One thread reads a connection; senders
// take turns (the owner's business).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace shardlab::process {

using Clock = std::chrono::steady_clock;

/// For poll(): at least 0, rounded up.
int milliseconds_until(Clock::time_point deadline);

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// One message: a type that its owner defines, and bytes.
struct Frame {
  std::uint32_t type = 0;
  std::string payload;
};

/// One end of a connection, unconnected by default. receive(), next() and wait() by one thread;
/// send(), flush() and drain() by one at a time.
class Connection {
 public:
  Connection() = default;
  explicit Connection(Descriptor descriptor);

  int descriptor() const { return descriptor_.get(); }
  explicit operator bool() const { return static_cast<bool>(descriptor_); }
  /// A frame as it is sent. Large ones take a while to write down: before a lock, not under it.
  static std::string framed(std::uint32_t type, std::string_view payload);
  /// Does not wait: bytes that the peer does not take at once are kept for flush(). False when the
  /// peer is gone.
  bool send(std::string frame);
  bool send(std::uint32_t type, std::string_view payload) { return send(framed(type, payload)); }
  /// Sends as much of the kept bytes as the peer takes. False when the peer is gone.
  bool flush();
  /// Bytes that were kept.
  std::size_t unsent() const { return unsent_bytes_; }
  bool behind() const { return unsent_bytes_ > 0; }
  /// flush() until nothing is left, the peer is gone, or `deadline` passes.
  void drain(Clock::time_point deadline);
  /// Reads data that has arrived, without waiting, and not all of it where that is much. False once
  /// the peer has closed its end; frames that arrived before are still available.
  bool receive();
  /// Bytes that have arrived and are not a frame yet.
  std::size_t unread() const { return received_.size() - taken_; }
  /// The next whole frame of those received.
  std::optional<Frame> next();
  /// Waits for a frame until `deadline`; none: it passed, or the peer is gone.
  std::optional<Frame> wait(Clock::time_point deadline);

 private:
  Descriptor descriptor_;
  std::string received_;
  std::size_t taken_ = 0;           ///< bytes of received_ that next() has given away
  std::deque<std::string> unsent_;  ///< frames, none of them empty
  std::size_t unsent_bytes_ = 0;
  std::size_t sent_ = 0;  ///< bytes of the first frame that are on their way
};

/// A port that others connect to.
class Listener {
 public:
  /// On all interfaces; port 0 takes any free one. Of several `ports` the first free one from
  /// `port` on. Fails with Runtime when all are taken.
  explicit Listener(std::uint16_t port, int ports = 1);
  std::uint16_t port() const { return port_; }
  /// Waits until `deadline`; false then.
  bool accept(Clock::time_point deadline, Connection& connection);
  /// For poll(): readable when a peer connects.
  int descriptor() const { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
  std::uint16_t port_;
};

/// Tries again until a peer listens there or `deadline` passes: then it is unconnected. A try
/// without an answer takes `one_try`, whatever the deadline. Fails with Runtime for an unknown
/// host.
Connection connect_to(const std::string& host, std::uint16_t port, Clock::time_point deadline,
                      std::chrono::milliseconds one_try = std::chrono::seconds(2));

}  // namespace shardlab::process
