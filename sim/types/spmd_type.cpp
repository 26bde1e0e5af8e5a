// Everything that a type shares with a placement is asked of the placement.
#include "sim/types/spmd_type.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

// Replicas stand for V and terms: what a shape shows.
Placements cuts_of(const TensorType& type) {
  Placements cuts(type.types.size(), Placement::replicate());
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
    if (type.types[dim].is_s()) cuts[dim] = *type.types[dim].placement;
  }
  return cuts;
}

}  // namespace

TensorType tensor_type(const SpmdTypes& types) {
  TensorType type{types, ShardOrder(types.size(), -1)};
  for (std::size_t dim = 0; dim < types.size(); ++dim) {
    if (!types[dim].is_s()) continue;
    type.order[dim] = 0;
    for (std::size_t before = 0; before < dim; ++before) {
      if (types[before] != types[dim]) continue;
      fail(Fix{"write V for these mesh dims and give a PartitionSpec, whose dims are in the order "
               "of the cuts"},
           "two mesh dims have type {}: nothing says which of them cuts first",
           to_string(types[dim]));
    }
  }
  return type;
}

TensorType tensor_type(const Placements& placements, const ShardOrder& order) {
  TensorType type{{}, order};
  for (const Placement& placement : placements) type.types.push_back({placement});
  return type;
}

TensorType cut_by(TensorType type, const std::vector<std::vector<std::size_t>>& spec) {
  for (std::size_t tensor_dim = 0; tensor_dim < spec.size(); ++tensor_dim) {
    for (std::size_t place = 0; place < spec[tensor_dim].size(); ++place) {
      SpmdType& along = type.types[spec[tensor_dim][place]];
      if (along != SpmdType::varying()) {
        fail(Fix{"name each mesh dim once, and give it type V"},
             "PartitionSpec: a mesh dim of type {} cannot cut dim {}", to_string(along),
             tensor_dim);
      }
      along = SpmdType::piece(static_cast<std::int64_t>(tensor_dim));
      type.order[spec[tensor_dim][place]] = static_cast<std::int32_t>(place);
    }
  }
  return type;
}

void retype(TensorType& type, std::size_t mesh_dim, const SpmdType& to) {
  type.types[mesh_dim] = {};
  std::int32_t& order = type.order[mesh_dim] = to.is_s() ? 0 : -1;
  for (std::size_t dim = 0; to.is_s() && dim < type.types.size(); ++dim) {
    if (type.types[dim] == to) order = std::max(order, type.order[dim] + 1);
  }
  type.types[mesh_dim] = to;
}

void shift_cuts(TensorType& type, std::int64_t place, bool added) {
  for (std::size_t dim = 0; dim < type.types.size(); ++dim) {
    if (!type.types[dim].is_s() || type.types[dim].placement->dim < place) continue;
    const bool gone = !added && type.types[dim].placement->dim == place;
    if (gone) type.order[dim] = -1;
    type.types[dim] = gone ? SpmdType::varying()
                           : SpmdType::piece(type.types[dim].placement->dim + (added ? 1 : -1));
  }
}

std::vector<std::vector<std::size_t>> cuts_by_dim(const TensorType& type, const MeshLayout& layout,
                                                  std::size_t ndim) {
  std::vector<std::vector<std::size_t>> cuts(ndim);
  bool any = false;
  for (std::size_t dim = 0; dim < type.types.size(); ++dim) {
    const std::int64_t cut = type.types[dim].is_s() ? type.types[dim].placement->dim : -1;
    if (cut < 0 || cut >= static_cast<std::int64_t>(ndim) || layout.size(dim) == 1) continue;
    cuts[static_cast<std::size_t>(cut)].push_back(dim);
    any = true;
  }
  for (auto& dims : cuts) std::ranges::sort(dims, {}, [&](auto dim) { return type.order[dim]; });
  return any ? cuts : std::vector<std::vector<std::size_t>>();
}

std::optional<Placements> placements_of(const TensorType& type) {
  Placements placements;
  for (const SpmdType& along : type.types) {
    if (!along.placement) return std::nullopt;
    placements.push_back(*along.placement);
  }
  return placements;
}

SpmdType dtensor_placement_to_spmd_type(const Placement& placement,
                                        const std::optional<Placement>& gradient) {
  const SpmdType type{placement, placement.is_replicate() && !(gradient && gradient->is_partial())};
  if (type.is_i() || parse_spmd_type(to_string(type)) == type) return type;
  fail(Fix{"redistribute it to R, S(d) or P(sum) first"}, "no type says what {} is",
       to_string(placement));
}

Placement spmd_type_to_dtensor_placement(const SpmdType& type) {
  if (type.placement) return *type.placement;
  fail(Fix{"say which tensor dim is cut: S(d)"}, "no placement says what V is");
}

SpmdType gradient_type(const SpmdType& type) {
  if (type.is_r()) return SpmdType::term();
  return type.is_p() ? SpmdType::replicated() : type;
}

SpmdType without_dim(const SpmdType& type) { return type.is_s() ? SpmdType::varying() : type; }

std::string to_string(const SpmdType& type) {
  if (!type.placement) return "V";
  if (type.is_i()) return "I";
  return *type.placement == Placement::partial() ? "P" : to_string(*type.placement);
}

std::optional<SpmdType> parse_spmd_type(std::string_view text) {
  if (text == "V") return SpmdType::varying();
  if (text == "I") return SpmdType::same_work();
  if (text == "P") return SpmdType::term();
  const std::optional<Placement> placement = parse_placement(text);
  if (!placement) return std::nullopt;
  const bool said = placement->is_replicate() || placement->is_plain_shard() ||
                    *placement == Placement::partial();
  return said ? std::optional(SpmdType{placement}) : std::nullopt;
}

std::string text_of(const TensorType& type, const MeshLayout& layout) {
  const Placements cuts = cuts_of(type);
  std::vector<std::string> parts;
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
    if (layout.size(dim) == 1) continue;
    std::string part = fmt::format("{} {}", layout.names()[dim], to_string(type.types[dim]));
    if (cuts[dim].is_shard() && cutting_order(cuts, type.order, cuts[dim].dim).size() > 1) {
      part += fmt::format("[{}]", type.order[dim]);
    }
    parts.push_back(std::move(part));
  }
  return text_of_list(parts, "  ");
}

std::string text_of(const TensorType& type, const MeshLayout& layout, const TensorMeta& meta) {
  return fmt::format("{}  {}", type_string(layout, cuts_of(type), type.order, meta),
                     text_of(type, layout));
}

}  // namespace shardlab
