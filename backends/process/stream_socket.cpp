// Linux could make descriptors that are not inherited and do not wait in one call (SOCK_CLOEXEC,
// accept4, eventfd); in several calls every system does. Only against the signal of a lost peer
// there are two ways, and that of macOS, an option of the socket, has not been tried.
#include "backends/process/stream_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shardlab::process {

namespace {

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;
#endif

Descriptor prepared(int descriptor) {
  if (descriptor >= 0) {
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
  }
  return Descriptor(descriptor);
}

Descriptor quiet(int descriptor) {
#ifndef MSG_NOSIGNAL
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return prepared(descriptor);
}

}  // namespace

Descriptor stream_socket(int family) { return quiet(::socket(family, SOCK_STREAM, 0)); }

Descriptor accepted(const Descriptor& listening) {
  return quiet(::accept(listening.get(), nullptr, nullptr));
}

std::ptrdiff_t send_quietly(const Descriptor& to, const char* bytes, std::size_t size) {
  return ::send(to.get(), bytes, size, kSendFlags);
}

std::pair<Descriptor, Descriptor> make_pipe() {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return {};
  return {prepared(ends[0]), prepared(ends[1])};
}

}  // namespace shardlab::process
