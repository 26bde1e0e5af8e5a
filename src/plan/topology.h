// topology.h - what a step costs. Pure data and part of the scenario, never read from
// the machine: decisions must not differ between backends.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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

struct Topology {
  /// Walking mesh dims from last to first, dims are fast (87.7 GB/s, 0.6 us) while the product of
  /// sizes stays within this number.
  std::int64_t devices_per_host = 1;
  std::map<std::string, Link> links;  ///< by mesh dim name; overrides the rule above
  Link link(const MeshLayout& layout, std::size_t mesh_dim) const;
  bool operator==(const Topology&) const = default;
};

// Predicted microseconds of a collective over n ranks; sizes in GiB.
double all_gather_us(double gathered_gib, std::int64_t n, const Link& link);
double reduce_scatter_us(double input_gib, std::int64_t n, const Link& link);
double all_reduce_us(double input_gib, std::int64_t n, const Link& link);
double all_to_all_us(double local_gib, std::int64_t n, const Link& link);

}  // namespace shardlab
