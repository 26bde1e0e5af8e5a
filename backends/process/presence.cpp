// A name for each rank among the sockets that have names and no files. It is free again when the
// process ends, however it does.
#include "backends/process/presence.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <chrono>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <fmt/core.h>
#include <fmt/format.h>

#include "backends/process/socket.h"

namespace shardlab::process {

namespace {

// One that has spoken tells the others by a message to their sockets, which waits there for those
// that look later.
constexpr std::chrono::milliseconds kSpeakingTakes{1'000};
// One after another loses its patience, so that they do not speak together.
constexpr std::chrono::milliseconds kTurnTakes{200};

struct Mark {
  std::mutex mutex;
  std::string job;
  std::int64_t rank = -1, size = 0, first = 0;
  Descriptor socket;
  std::atomic<bool> spoke = false;
};
Mark& own_mark() {
  static Mark mark;
  return mark;
}

// Calls bind() or connect() for the name of that rank.
Descriptor named(const std::string& job, std::int64_t rank, auto function) {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
  fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("shardlab {} {}", job, rank);
  const std::size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.begin(), size, address.sun_path + 1);  // behind a zero: no file
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  const bool done =
      socket && function(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0;
  return done ? std::move(socket) : Descriptor();
}

std::vector<std::int64_t> present(std::int64_t begin, std::int64_t end) {
  Mark& mark = own_mark();
  const std::lock_guard lock(mark.mutex);
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = begin; mark.socket && rank < end; ++rank) {
    if (rank == mark.rank || named(mark.job, rank, ::connect)) ranks.push_back(rank);
  }
  return ranks;
}

// Whether another one has spoken.
bool heard(std::chrono::milliseconds most) {
  pollfd entry{own_mark().socket.get(), POLLIN, 0};
  return poll(&entry, 1, static_cast<int>(most.count())) == 1;
}

}  // namespace

bool mark_presence(const std::string& job, std::int64_t rank, std::int64_t size) {
  Mark& mark = own_mark();
  const std::lock_guard lock(mark.mutex);
  if (mark.socket) return true;
  const char* host = std::getenv("SHARDLAB_HOST");
  mark.job = host == nullptr ? job : fmt::format("{} {}", host, job);
  mark.rank = rank;
  mark.size = size;
  errno = 0;
  mark.socket = named(mark.job, rank, ::bind);
  return mark.socket || errno != EADDRINUSE;
}

std::vector<std::int64_t> ranks_present() { return present(0, own_mark().size); }

void tell_spoken() {
  Mark& mark = own_mark();
  const std::lock_guard lock(mark.mutex);
  if (mark.spoke.exchange(true)) return;
  const auto send = [](int socket, const sockaddr* to, socklen_t length) {
    const char word = 0;
    return sendto(socket, &word, sizeof word, MSG_DONTWAIT, to, length) < 0 ? -1 : 0;
  };
  for (std::int64_t rank = 0; mark.socket && rank < mark.size; ++rank) {
    if (rank != mark.rank) named(mark.job, rank, send);
  }
}

bool somebody_spoke() {
  const Mark& mark = own_mark();
  if (mark.spoke || !mark.socket) return true;
  const std::size_t before = present(0, mark.rank).size();
  return heard(kSpeakingTakes + static_cast<std::int64_t>(before) * kTurnTakes);
}

bool must_speak() {
  const bool first = present(own_mark().first, own_mark().rank).empty();
  return first ? !heard(std::chrono::milliseconds(0)) : !somebody_spoke();
}

void rank_zero_is_silent() { own_mark().first = 1; }

}  // namespace shardlab::process
