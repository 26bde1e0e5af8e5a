// A name for each rank among the sockets that have names and no files. It is free again when the
// process ends, however it does.
#include "backends/process/presence.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "backends/process/socket.h"

namespace shardlab::process {

namespace {

struct Mark {
  std::mutex mutex;
  std::string job;
  std::int64_t rank = -1, first = 0;
  Descriptor socket;
};
Mark& own_mark() {
  static Mark mark;
  return mark;
}

// Calls bind() or connect() for the name of that rank.
template <typename Function>
Descriptor named(const std::string& job, std::int64_t rank, Function function) {
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

}  // namespace

void mark_presence(const std::string& job, std::int64_t rank) {
  Mark& mark = own_mark();
  const std::lock_guard lock(mark.mutex);
  mark.job = job;
  mark.rank = rank;
  mark.socket = named(job, rank, ::bind);
}

std::vector<std::int64_t> ranks_present(std::int64_t size) { return present(0, size); }

bool first_present() { return present(own_mark().first, own_mark().rank).empty(); }

void stay_present() {
  if (own_mark().socket) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void rank_zero_is_silent() { own_mark().first = 1; }

}  // namespace shardlab::process
