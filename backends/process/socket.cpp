// Messages with a fixed header. Neither sends nor reads wait, even if a peer is stopped or floods
// us. A header without our magic number is from a program that is not part of the job.
#include "backends/process/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <memory>
#include <utility>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/process/stream_socket.h"
#include "base/error.h"

namespace shardlab::process {

namespace {

struct Header {
  std::uint32_t type;
  std::uint32_t magic;
  std::uint64_t size;
};
// Separates our peers from other programs that find the port.
constexpr std::uint32_t kMagic = 0x53484C42;

// `events`: POLLIN, POLLOUT.
bool wait_until_ready(int descriptor, short events, Clock::time_point deadline) {
  while (true) {
    pollfd entry{descriptor, events, 0};
    const int ready = poll(&entry, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Connection::Connection(Descriptor descriptor) : descriptor_(std::move(descriptor)) {
  // Small messages are sent at once.
  const int on = 1;
  setsockopt(descriptor_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::string Connection::framed(std::uint32_t type, std::string_view payload) {
  const Header header{type, kMagic, payload.size()};
  std::string frame;
  frame.reserve(sizeof header + payload.size());
  frame.append(reinterpret_cast<const char*>(&header), sizeof header);
  frame += payload;
  return frame;
}

bool Connection::send(std::string frame) {
  unsent_bytes_ += frame.size();
  unsent_.push_back(std::move(frame));
  return flush();
}

bool Connection::flush() {
  while (behind()) {
    const std::string& frame = unsent_.front();
    const auto count = send_quietly(descriptor_, frame.data() + sent_, frame.size() - sent_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_wait()) return true;
    if (count <= 0) break;
    sent_ += static_cast<std::size_t>(count);
    unsent_bytes_ -= static_cast<std::size_t>(count);
    if (sent_ < frame.size()) continue;
    unsent_.pop_front();
    sent_ = 0;
  }
  // A peer that is gone takes nothing more: its bytes are dropped.
  const bool taken = !behind();
  unsent_.clear();
  unsent_bytes_ = sent_ = 0;
  return taken;
}

void Connection::drain(Clock::time_point deadline) {
  while (behind() && wait_until_ready(descriptor_.get(), POLLOUT, deadline)) flush();
}

bool Connection::receive() {
  constexpr std::size_t kChunk = 65536;
  constexpr int kMostChunks = 64;
  for (int i = 0; i < kMostChunks; ++i) {
    const std::size_t before = received_.size();
    received_.resize(before + kChunk);
    const ssize_t count = recv(descriptor_.get(), received_.data() + before, kChunk, MSG_DONTWAIT);
    received_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0) continue;
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && would_wait();
  }
  return true;
}

std::optional<Frame> Connection::next() {
  Header header;
  if (received_.size() - taken_ < sizeof header) return std::nullopt;
  std::memcpy(&header, received_.data() + taken_, sizeof header);
  if (header.magic != kMagic) {
    fail(ErrorKind::kRuntime, Fix{"set MASTER_PORT to a port that nothing else uses"},
         "a connection that is not from this job reached its port");
  }
  if (received_.size() - taken_ - sizeof header < header.size) return std::nullopt;
  Frame frame{header.type, received_.substr(taken_ + sizeof header, header.size)};
  taken_ += sizeof header + header.size;
  if (taken_ == received_.size()) {
    received_.clear();
    taken_ = 0;
  }
  return frame;
}

std::optional<Frame> Connection::wait(Clock::time_point deadline) {
  while (true) {
    if (std::optional<Frame> frame = next()) return frame;
    if (!wait_until_ready(descriptor_.get(), POLLIN, deadline)) return std::nullopt;
    if (!receive()) return next();
  }
}

namespace {

Descriptor listening_socket(int family, std::uint16_t port) {
  Descriptor descriptor = stream_socket(family);
  if (!descriptor) return descriptor;
  const int on = 1, off = 0;
  setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int bound = -1;
  if (family == AF_INET6) {
    setsockopt(descriptor.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    bound = bind(descriptor.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    bound = bind(descriptor.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  if (bound != 0 || listen(descriptor.get(), SOMAXCONN) != 0) return Descriptor();
  return descriptor;
}

std::uint16_t port_of(const Descriptor& descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(descriptor.get(), reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Listener::Listener(std::uint16_t port, int ports) {
  for (int i = 0; i < ports && !descriptor_; ++i) {
    const auto candidate = static_cast<std::uint16_t>(port + i);
    descriptor_ = listening_socket(AF_INET6, candidate);
    if (!descriptor_) descriptor_ = listening_socket(AF_INET, candidate);
  }
  if (!descriptor_) {
    const std::string last = ports == 1 ? "" : fmt::format(" to {}", port + ports - 1);
    throw Error(ErrorKind::kRuntime, fmt::format("rank 0 cannot listen on port {}{}: {}", port,
                                                 last, std::strerror(errno)))
        .with("fix", "another MASTER_PORT, if a program already listens on this one");
  }
  port_ = port_of(descriptor_);
}

bool Listener::accept(Clock::time_point deadline, Connection& connection) {
  if (!wait_until_ready(descriptor_.get(), POLLIN, deadline)) return false;
  connection = Connection(accepted(descriptor_));
  return static_cast<bool>(connection);
}

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (code != 0) {
    fail(ErrorKind::kRuntime, Fix{"set MASTER_ADDR to the name or address of the host of rank 0"},
         "host {} is not known: {}", host, gai_strerror(code));
  }
  return Addresses(found, &freeaddrinfo);
}

// Sockets do not wait: for packets that a firewall drops the kernel would take two minutes.
bool connects(const Descriptor& descriptor, const addrinfo& address, Clock::time_point deadline) {
  if (connect(descriptor.get(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !wait_until_ready(descriptor.get(), POLLOUT, deadline)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(descriptor.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

Connection connect_to(const std::string& host, std::uint16_t port, Clock::time_point deadline,
                      std::chrono::milliseconds one_try) {
  constexpr std::chrono::milliseconds kPause(20);
  const Addresses addresses = resolve(host, port);
  while (true) {
    for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
      Descriptor descriptor = stream_socket(entry->ai_family);
      if (!descriptor) continue;
      if (connects(descriptor, *entry, Clock::now() + one_try)) {
        return Connection(std::move(descriptor));
      }
    }
    if (Clock::now() + kPause > deadline) return Connection();
    poll(nullptr, 0, static_cast<int>(kPause.count()));
  }
}

}  // namespace shardlab::process
