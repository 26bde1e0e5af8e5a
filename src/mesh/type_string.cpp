// Prints what type_parser.cpp reads. A strided dim is printed as the order of mesh dims that it
// means, if every rank then owns the same elements; on uneven sizes that may fail, and the factor
// is printed.
#include "mesh/type_string.h"

#include <fmt/format.h>

#include <vector>

#include "base/text.h"
#include "mesh/dtensor.h"
#include "mesh/local_shape.h"

namespace shardlab {
namespace {

using MeshDims = InlineVector<std::size_t, 4>;

/// The order that the strided shards of one tensor dim mean, if every rank owns the same elements
/// under both. On uneven sizes they may differ (layout README): then the dim keeps its "~".
std::optional<MeshDims> meaning_of_strided(const MeshLayout& layout, const Placements& placements,
                                           const MeshDims& in_mesh_order, std::int64_t length) {
  OrderedPlacements alone{Placements(placements.size()), {}};
  for (const std::size_t dim : in_mesh_order) alone.placements[dim] = placements[dim];
  alone.order = default_order(alone.placements);
  const auto decoded = decode_strided(alone.placements, layout.shape());
  const std::int64_t tensor_dim = placements[in_mesh_order[0]].dim;
  if (!decoded || !same_pieces(layout, alone, *decoded, tensor_dim, length)) return std::nullopt;
  return cutting_order(decoded->placements, decoded->order, tensor_dim);
}

std::string dim_text(const MeshLayout& layout, const Placements& placements,
                     const ShardOrder& order, std::size_t tensor_dim, std::int64_t length) {
  MeshDims sequence = cutting_order(placements, order, static_cast<std::int64_t>(tensor_dim));
  if (sequence.empty()) return fmt::format("{}", length);
  bool strided = false;
  for (const std::size_t dim : sequence) strided |= placements[dim].is_strided_shard();
  if (strided) {
    if (const auto meaning = meaning_of_strided(layout, placements, sequence, length)) {
      sequence = *meaning;
      strided = false;
    }
  }
  std::vector<std::string> cuts;
  for (const std::size_t dim : sequence) {
    std::string cut = layout.names()[dim];
    if (strided && placements[dim].is_strided_shard()) {
      cut += fmt::format("~{}", placements[dim].split_factor);
    }
    cuts.push_back(std::move(cut));
  }
  if (cuts.size() == 1) return fmt::format("{}@{}", length, cuts[0]);
  return fmt::format("{}@({})", length, text_of_list(cuts, ","));
}

std::string kind_text(const Placement& partial) {
  if (partial.kind == PlacementKind::kNormPartial) return fmt::format("norm({})", partial.norm);
  if (partial.kind != PlacementKind::kMaskPartial) return std::string(to_string(partial.op));
  return "mask" + to_string(partial).substr(2);  // "MP(sum,16x8,0)"
}

/// "{sum:(a,b), avg:c}": mesh dims that wait for the same reduction together, in mesh order.
std::string pending_text(const MeshLayout& layout, const Placements& placements) {
  std::vector<std::string> parts;
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    if (!placements[dim].is_partial()) continue;
    std::vector<std::string> names;
    bool listed = false;
    for (std::size_t other = 0; other < placements.size(); ++other) {
      if (!(placements[other] == placements[dim])) continue;
      listed |= other < dim;
      names.push_back(layout.names()[other]);
    }
    if (listed) continue;
    const bool one = names.size() == 1;
    parts.push_back(fmt::format("{}:{}{}{}", kind_text(placements[dim]), one ? "" : "(",
                                text_of_list(names, ","), one ? "" : ")"));
  }
  return parts.empty() ? "" : fmt::format("{{{}}}", text_of_list(parts, ", "));
}

}  // namespace

std::string type_string(const DTensorSpec& spec) {
  return type_string(*spec.layout(), spec.placements(), spec.order(), spec.meta());
}

std::string type_string(const MeshLayout& layout, const Placements& placements,
                        const ShardOrder& order, const TensorMeta& meta) {
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < meta.shape.size(); ++dim) {
    dims.push_back(dim_text(layout, placements, order, dim, meta.shape[dim]));
  }
  return fmt::format("{}[{}]{}", to_string(meta.dtype), text_of_list(dims, ", "),
                     pending_text(layout, placements));
}

std::string type_string(const TensorMeta& meta) {
  return fmt::format("{}[{}]", to_string(meta.dtype), text_of_list(meta.shape, ", "));
}

std::string type_string(const DTensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return tensor.distributed() ? type_string(*tensor.spec()) : type_string(tensor.meta());
}

}  // namespace shardlab
