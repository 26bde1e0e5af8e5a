// A tensor dim that several mesh dims cut has an order of the cuts (M-9). Strided shards express
// the same in mesh order: the split factor of mesh dim m is the product of the sizes of the mesh
// dims that cut before m although they are listed behind it. From the last mesh dim to the first,
// the factor therefore gives the place of each among those already placed, and decode_strided()
// inverts encode_strided(). Factors without such a place have no order, and stay strided.
#include "mesh/shard_order.h"

#include <fmt/format.h>

namespace shardlab {
namespace {

/// Number of mesh dims that shard `tensor_dim`.
std::int32_t cut_count(const Placements& placements, std::int32_t tensor_dim) {
  std::int32_t count = 0;
  for (const Placement& placement : placements) count += placement.is_shard(tensor_dim) ? 1 : 0;
  return count;
}

/// Mesh dims that shard `tensor_dim`, decoded from the strided form: from the last mesh dim to the
/// first, each is put at the place where the sizes of those cut before it multiply to its factor.
/// Empty when there is no such place.
std::optional<InlineVector<std::size_t, 4>> decode_dim(const Placements& placements,
                                                       const Dims& mesh_shape,
                                                       std::int32_t tensor_dim) {
  InlineVector<std::size_t, 4> sequence;
  for (std::size_t mesh_dim = placements.size(); mesh_dim-- > 0;) {
    if (!placements[mesh_dim].is_shard(tensor_dim)) continue;
    const std::int64_t factor =
        placements[mesh_dim].is_strided_shard() ? placements[mesh_dim].split_factor : 1;
    std::size_t place = 0;
    std::int64_t before = 1;
    while (before < factor && place < sequence.size()) before *= mesh_shape[sequence[place++]];
    if (before != factor) return std::nullopt;
    sequence.insert(place, mesh_dim);
  }
  return sequence;
}

}  // namespace

ShardOrder default_order(const Placements& placements) {
  ShardOrder order(placements.size(), -1);
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    if (!placements[mesh_dim].is_shard()) continue;
    std::int32_t place = 0;
    for (std::size_t before = 0; before < mesh_dim; ++before) {
      place += placements[before].is_shard(placements[mesh_dim].dim) ? 1 : 0;
    }
    order[mesh_dim] = place;
  }
  return order;
}

bool is_default_order(const Placements& placements, const ShardOrder& order) {
  for (std::size_t mesh_dim = 1; mesh_dim < placements.size(); ++mesh_dim) {
    if (!placements[mesh_dim].is_shard()) continue;
    for (std::size_t before = 0; before < mesh_dim; ++before) {
      const bool same_dim = placements[before].is_shard(placements[mesh_dim].dim);
      if (same_dim && order[before] >= order[mesh_dim]) return false;
    }
  }
  return true;
}

InlineVector<std::size_t, 4> cutting_order(const Placements& placements, const ShardOrder& order,
                                           std::int64_t tensor_dim) {
  InlineVector<std::size_t, 4> sequence;
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    if (!placements[mesh_dim].is_shard(tensor_dim)) continue;
    std::size_t place = sequence.size();
    while (place > 0 && order[sequence[place - 1]] > order[mesh_dim]) --place;
    sequence.insert(place, mesh_dim);
  }
  return sequence;
}

void check_order(const Placements& placements, const ShardOrder& order) {
  if (order.size() != placements.size()) {
    fail(ErrorKind::kInternal, "a shard order of {} entries for {} placements", order.size(),
         placements.size());
  }
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    const Placement& placement = placements[mesh_dim];
    const std::int32_t place = order[mesh_dim];
    if (!placement.is_shard()) {
      if (place == -1) continue;
      fail(ErrorKind::kInternal, "shard order lists mesh dim {}, whose placement is {}", mesh_dim,
           to_string(placement));
    }
    const std::int32_t count = cut_count(placements, placement.dim);
    bool taken = false;
    for (std::size_t before = 0; before < mesh_dim; ++before) {
      taken |= placements[before].is_shard(placement.dim) && order[before] == place;
    }
    if (place < 0 || place >= count || taken) {
      fail(ErrorKind::kInternal, "mesh dim {} has place {} among the {} cuts of tensor dim {}",
           mesh_dim, place, count, placement.dim);
    }
  }
}

std::string order_text(const Placements& placements, const ShardOrder& order) {
  for (const Placement& placement : placements) {
    if (placement.is_strided_shard()) return to_string(placements);  // always in mesh order
  }
  std::string text;
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    const Placement& placement = placements[mesh_dim];
    text += to_string(placement);
    if (placement.is_shard() && cut_count(placements, placement.dim) > 1) {
      text += fmt::format("[{}]", order[mesh_dim]);
    }
  }
  return text;
}

std::optional<OrderedPlacements> decode_strided(const Placements& placements,
                                                const Dims& mesh_shape) {
  OrderedPlacements result{placements, ShardOrder(placements.size(), -1)};
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    const Placement& placement = placements[mesh_dim];
    if (!placement.is_shard()) continue;
    result.placements[mesh_dim] = Placement::shard(placement.dim);
    if (result.order[mesh_dim] >= 0) continue;
    const auto sequence = decode_dim(placements, mesh_shape, placement.dim);
    if (!sequence) return std::nullopt;
    for (std::size_t place = 0; place < sequence->size(); ++place) {
      result.order[(*sequence)[place]] = static_cast<std::int32_t>(place);
    }
  }
  return result;
}

Placements encode_strided(const Placements& placements, const ShardOrder& order,
                          const Dims& mesh_shape) {
  Placements result = placements;
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    if (!placements[mesh_dim].is_shard()) continue;
    std::int64_t factor = 1;
    for (std::size_t later = mesh_dim + 1; later < placements.size(); ++later) {
      const bool cut_earlier =
          placements[later].is_shard(placements[mesh_dim].dim) && order[later] < order[mesh_dim];
      if (cut_earlier) factor *= mesh_shape[later];
    }
    if (factor > 1) result[mesh_dim] = Placement::strided_shard(placements[mesh_dim].dim, factor);
  }
  return result;
}

}  // namespace shardlab
