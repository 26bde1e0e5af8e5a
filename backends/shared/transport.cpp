// Names of the transports, and the fabrics that are like them.
#include "backends/shared/transport.h"

#include <cstddef>

namespace shardlab {

namespace {

struct Words {
  std::string_view name, fabric;
};

// In the order of the enumeration.
constexpr Words kWords[] = {
    {"buffered", "sends are buffered (MPI, small messages)"},
    {"nonblocking", "no message is buffered (gloo, MPI)"},
    {"pair_queue", "a pair has one queue (NCCL, communicators made at first use)"},
    {"group_queue", "a group has one queue (NCCL, group created eagerly)"},
    {"one_queue", "a device has one queue (NCCL, several communicators)"},
    {"blocking", "each call waits (send and recv, or a host that synchronizes)"},
};

}  // namespace

std::string_view to_string(Transport transport) {
  return kWords[static_cast<std::size_t>(transport)].name;
}

std::optional<Transport> parse_transport(std::string_view name) {
  for (const Transport transport : kTransports) {
    if (name == to_string(transport)) return transport;
  }
  return std::nullopt;
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const Words& words : kWords) names.emplace_back(words.name);
  return names;
}

std::string_view fabric_of(Transport transport) {
  return kWords[static_cast<std::size_t>(transport)].fabric;
}

}  // namespace shardlab
