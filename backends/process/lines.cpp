// One poll() for all lines and for a pipe by which senders wake the thread.
#include "backends/process/lines.h"

#include <unistd.h>
#include <optional>

#include <cerrno>
#include <cstdio>
#include <new>

#include "backends/process/stream_socket.h"
#include "base/error.h"

namespace shardlab::process {

Lines::Lines(std::vector<Connection> connections, std::chrono::milliseconds tick, Ears ears)
    : connections_(std::move(connections)),
      moved_(connections_.size()),
      tick_(tick),
      ears_(std::move(ears)),
      wake_(make_pipe()),
      listening_([this] {
        try {
          listen();
        } catch (const std::bad_alloc&) {
          // Not even for the news of it.
          std::fputs("error: out of memory\n", stderr);
          _exit(2);
        }
      }) {}

Lines::~Lines() {
  if (!listening_.joinable()) return;
  stopping_ = true;
  wake();
  listening_.join();
}

void Lines::send(std::size_t line, std::uint32_t type, std::string_view payload) {
  std::string frame = Connection::framed(type, payload);
  const std::lock_guard lock(sending_);
  connections_[line].send(std::move(frame));
  if (connections_[line].behind()) wake();
}

void Lines::stop(std::uint32_t type, std::chrono::milliseconds most) {
  stopping_ = true;
  wake();
  listening_.join();
  const Clock::time_point deadline = Clock::now() + most;
  for (Connection& connection : connections_) {
    connection.send(type, "");
    connection.drain(deadline);
  }
}

void Lines::listen() {
  std::vector<pollfd> entries{{wake_.first.get(), POLLIN, 0}};
  for (const Connection& connection : connections_) {
    entries.push_back({connection.descriptor(), POLLIN, 0});
  }
  // Messages may have arrived together with the welcome: the first pass reads all connections.
  for (bool first = true; !stopping_; first = false) {
    if (!first) poll(entries.data(), entries.size(), static_cast<int>(tick_.count()));
    take_wakes();
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (!first && (entries[i].revents & ~POLLOUT) == 0) continue;
      // poll() passes over negative descriptors.
      if (!take_in(i - 1)) entries[i].fd = -1;
    }
    flush(entries);
    ears_.pause();
  }
}

void Lines::move(std::size_t line) {
  moved_[line].store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

void Lines::wake() {
  const char byte = 0;
  while (write(wake_.second.get(), &byte, 1) < 0 && errno == EINTR) {
  }
}

void Lines::take_wakes() {
  char bytes[64];
  while (read(wake_.first.get(), bytes, sizeof bytes) > 0) {
  }
}

// A peer whose message makes no sense counts as gone.
bool Lines::take_in(std::size_t line) {
  const std::size_t before = connections_[line].unread();
  bool open = false;
  std::vector<Frame> frames;
  try {
    open = connections_[line].receive();
    if (connections_[line].unread() != before) move(line);
    while (std::optional<Frame> frame = connections_[line].next()) {
      frames.push_back(std::move(*frame));
    }
  } catch (const Error&) {
    open = false;
  } catch (const std::bad_alloc&) {
    ears_.hear(line, {}, LineState::kNoMemory);
    return false;
  }
  ears_.hear(line, frames, open ? LineState::kOpen : LineState::kClosed);
  return open;
}

void Lines::flush(std::vector<pollfd>& entries) {
  const std::lock_guard lock(sending_);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::size_t before = connections_[i - 1].unsent();
    connections_[i - 1].flush();
    if (connections_[i - 1].unsent() != before) move(i - 1);
    entries[i].events = POLLIN;
    if (connections_[i - 1].behind()) entries[i].events |= POLLOUT;
  }
}

}  // namespace shardlab::process
