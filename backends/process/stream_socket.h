// stream_socket.h - sockets and pipes as every POSIX system has them.
#pragma once

#include <cstddef>
#include <utility>

#include "backends/process/socket.h"

namespace shardlab::process {

/// For TCP over AF_INET or AF_INET6. As all that is made here, programs that this one starts do not
/// inherit it, and no call on it waits. Without a value, and errno, where there is none.
Descriptor stream_socket(int family);

/// The next connection of a listening socket, if there is one.
Descriptor accepted(const Descriptor& listening);

/// Does ::send(), but without a signal if the peer is gone: the result is then -1 and EPIPE.
std::ptrdiff_t send_quietly(const Descriptor& to, const char* bytes, std::size_t size);

/// A pipe, by its ends for reading and writing.
std::pair<Descriptor, Descriptor> make_pipe();

}  // namespace shardlab::process
