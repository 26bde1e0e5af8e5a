// Elements moved by the even collective on padded pieces against grouped sends and receives.
// Between hosts, the amount that crosses a host's link decides; a ring crosses it once per element,
// pairs once per receiving rank.
#include "backends/nccl/route.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace shardlab::nccl {

namespace {

constexpr std::int64_t kPartOfPadding = 16;

struct Host {
  std::int64_t ranks = 0;
  std::int64_t elements = 0;  // of its ranks' pieces
};

std::map<std::int64_t, Host> by_host(std::span<const std::int64_t> lengths,
                                     std::span<const std::int64_t> hosts) {
  std::map<std::int64_t, Host> result;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Host& host = result[hosts[i]];
    host.ranks += 1;
    host.elements += lengths[i];
  }
  return result;
}

}  // namespace

std::int64_t moved(Route route, std::span<const std::int64_t> lengths,
                   std::span<const std::int64_t> hosts) {
  const auto ranks = static_cast<std::int64_t>(lengths.size());
  const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const auto all = by_host(lengths, hosts);
  if (all.size() == 1) return (ranks - 1) * (route == Route::kPadded ? ranks * longest : total);
  std::int64_t sum = 0;
  for (const auto& [name, host] : all) {
    sum += route == Route::kGrouped  ? host.ranks * (total - host.elements)
           : route == Route::kPadded ? (ranks - host.ranks) * longest
                                     : total - host.elements;
  }
  return sum;
}

Route route_of(std::span<const std::int64_t> lengths, std::span<const std::int64_t> hosts) {
  const bool even = std::ranges::all_of(lengths, [&](std::int64_t l) { return l == lengths[0]; });
  if (even) return Route::kEven;
  const std::int64_t grouped = moved(Route::kGrouped, lengths, hosts);
  const std::int64_t worth = grouped + grouped / kPartOfPadding;
  return moved(Route::kPadded, lengths, hosts) <= worth ? Route::kPadded : Route::kGrouped;
}

}  // namespace shardlab::nccl
