// transport.h - kinds of fabric between ranks. They differ in one thing alone: when an operation
// that a rank has posted is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// The strictest last: what ends in one ends in all before it.
enum class Transport : std::uint8_t {
  kBuffered,     ///< a send at once, a receive when its send is posted
  kNonblocking,  ///< when both sides, or all members, have posted
  kPairQueue,    ///< and behind everything posted earlier to or from that peer in the group
  kGroupQueue,   ///< and behind everything posted earlier in the group
  kOneQueue,     ///< and behind everything that the rank posted earlier
  kBlocking,     ///< as kNonblocking, and the rank waits for it before it goes on
};
inline constexpr Transport kTransports[] = {Transport::kBuffered,  Transport::kNonblocking,
                                            Transport::kPairQueue, Transport::kGroupQueue,
                                            Transport::kOneQueue,  Transport::kBlocking};

/// "buffered", "nonblocking", "pair_queue", "group_queue", "one_queue", "blocking".
std::string_view to_string(Transport transport);
std::optional<Transport> parse_transport(std::string_view name);
std::vector<std::string> transport_names();
/// "a group has one queue (NCCL, group created eagerly)", for a sentence after "where".
std::string_view fabric_of(Transport transport);

}  // namespace shardlab
