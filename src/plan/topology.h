// topology.h - the cost of a step. Pure data and part of the scenario, never read from
// the machine: decisions must not differ between backends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/collective_kind.h"
#include "mesh/mesh_layout.h"

namespace shardlab {

enum class PlanRules : std::uint8_t { kSeed, kV2_15 };

/// One mesh dim's link: bandwidth in GB/s (2^30 bytes, as the reference counts), latency of a hop
/// in microseconds. The defaults are the reference's for ranks on different hosts.
struct Link {
  double gbps = 87.7 * 0.22;
  double us = 2.7;
  bool operator==(const Link&) const = default;
};

/// A user's price of collectives in place of the reference's formulas: choices among placements,
/// plans, and predicted times then use it. Pure, and the same for all ranks, which share it:
/// decisions must not differ between them.
class CollectivePrice {
 public:
  virtual ~CollectivePrice() = default;
  /// In microseconds, not negative; arguments as those of collective_us.
  virtual double us(CollectiveKind kind, double gib, std::int64_t n, const Link& link) const = 0;
};

/// Time to start any collective, in microseconds.
inline constexpr double kStartUs = 6.6;
/// A direct all-to-all is priced above the all-gather that could replace it.
inline constexpr double kAllToAllPenaltyUs = 1.0;

/// The reference's price of a collective over n ranks in microseconds, as of a ring: a start, a
/// latency per hop, and the bytes that each rank sends over the bandwidth. `gib` is `size` of
/// ring_sends. plan/predicted_time.h builds on it. Inline, as every candidate is priced.
inline double collective_us(CollectiveKind kind, double gib, std::int64_t n, const Link& link) {
  const double us = kStartUs + static_cast<double>(ring_hops(kind, n)) * link.us +
                    ring_sends(kind, gib, n) / link.gbps * 1e6;
  return kind == CollectiveKind::kAllToAll ? us + kAllToAllPenaltyUs : us;
}

struct Topology {
  /// Walking mesh dims from last to first, dims are fast (87.7 GB/s, 0.6 us) while the product of
  /// sizes stays within this number.
  std::int64_t devices_per_host = 1;
  std::map<std::string, Link> links;  ///< by mesh dim name; overrides the rule above
  /// The mesh whose dims `links` names; null: every mesh with such dims. A dim of another mesh that
  /// has no name there, as a flattened one, is as slow as the slowest dim of `mesh` that it is
  /// along.
  const MeshLayout* mesh = nullptr;
  std::shared_ptr<const CollectivePrice> price;  ///< null: collective_us
  /// The price of a collective: `price`, or the reference's.
  double us(CollectiveKind kind, double gib, std::int64_t n, const Link& link) const {
    return price ? price->us(kind, gib, n, link) : collective_us(kind, gib, n, link);
  }
  Link link(const MeshLayout& layout, std::size_t mesh_dim) const;
  /// The link that a collective along all these mesh dims waits for: the slowest of those with more
  /// than one rank.
  Link slowest(const MeshLayout& layout, std::span<const std::size_t> mesh_dims) const;
  bool operator==(const Topology&) const = default;
};

}  // namespace shardlab
