// A cutting order of mesh dims that is shared by all tensors of a call can be read as another
// numbering of the mesh, under which it is the default one; every rule for one mesh dim holds under
// it. A written tensor, which cannot move, decides first; else the first input that is cut in
// another order than the default.
#include "propagate/cutting.h"

#include <algorithm>
#include <numeric>

#include "propagate/expansion.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

CuttingSequence sequence_of(const DTensorSpec& spec) {
  CuttingSequence sequence(spec.placements().size());
  std::iota(sequence.begin(), sequence.end(), 0);
  // The places of the mesh dims that cut one tensor dim are filled in the order in which they cut.
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    const auto cuts =
        cutting_order(spec.placements(), spec.order(), static_cast<std::int64_t>(dim));
    auto places = cuts;
    std::sort(places.begin(), places.end());
    for (std::size_t i = 0; i < cuts.size(); ++i) sequence[places[i]] = cuts[i];
  }
  return sequence;
}

}  // namespace

CuttingSequence cutting_sequence(const Element& element) {
  const std::vector<const DTensorSpec*>& tensors = element.tensors;
  const DTensorSpec* leading = nullptr;
  if (element.schema.row->inplace()) {
    leading = tensors.front();
  } else if (element.outs > 0) {
    leading = tensors.back();
  } else {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [](const DTensorSpec* spec) {
      return !spec->has_default_order();
    });
    if (found != tensors.end()) leading = *found;
  }
  if (leading == nullptr || leading->has_default_order()) return {};
  return sequence_of(*leading);
}

ShardOrder order_in(const CuttingSequence& sequence, const Placements& placements) {
  const bool strided = std::any_of(placements.begin(), placements.end(),
                                   [](const Placement& p) { return p.is_strided_shard(); });
  if (sequence.empty() || strided) return default_order(placements);
  ShardOrder order(placements.size(), -1);
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const std::size_t mesh_dim = sequence[i];
    if (!placements[mesh_dim].is_shard()) continue;
    order[mesh_dim] = 0;
    for (std::size_t before = 0; before < i; ++before) {
      order[mesh_dim] += placements[sequence[before]].is_shard(placements[mesh_dim].dim);
    }
  }
  return order;
}

}  // namespace shardlab
