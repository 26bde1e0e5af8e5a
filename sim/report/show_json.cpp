// The facts of show.cpp as JSON, with the pieces of at most 65,536 ranks.
#include "mesh/type_string.h"
#include "sim/files/json_value.h"
#include "sim/report/holdings.h"
#include "sim/report/show.h"

namespace shardlab {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMaxRanks = 65536;

std::vector<std::int64_t> list(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}

OrderedJson json_of(const Holding& holding) {
  OrderedJson runs = OrderedJson::array();
  for (const DimMap& map : holding.view.dims) {
    OrderedJson dim = OrderedJson::array();
    for (const IndexRun& run : map.runs) dim.push_back({run.offset, run.size});
    runs.push_back(std::move(dim));
  }
  return {{"rank", holding.rank},
          {"coordinate", list(holding.coordinate)},
          {"local_shape", list(holding.shape)},
          {"offset", list(holding.offset)},
          {"runs", std::move(runs)},
          {"elements", holding.elements},
          {"bytes", holding.bytes}};
}

}  // namespace

std::string json_of_spec(const DTensorSpec& spec) {
  const MeshLayout& layout = *spec.layout();
  const HoldingTotals totals = totals_of(spec);
  OrderedJson mesh = OrderedJson::object();
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    mesh[layout.names()[dim]] = layout.size(dim);
  }
  OrderedJson placements = OrderedJson::array();
  for (const Placement& placement : spec.placements()) placements.push_back(to_string(placement));
  const std::int64_t listed = std::min(layout.size(), kMaxRanks);
  OrderedJson ranks = OrderedJson::array();
  for (std::int64_t index = 0; index < listed; ++index) {
    ranks.push_back(json_of(holding_at(spec, index)));
  }
  OrderedJson shapes = OrderedJson::array();
  for (const auto& row : totals.shapes) {
    shapes.push_back({{"local_shape", list(row.shape)}, {"ranks", row.ranks}});
  }
  const OrderedJson result = {
      {"type", type_string(spec)},
      {"mesh", std::move(mesh)},
      {"placements", std::move(placements)},
      {"shard_order", std::vector<std::int32_t>(spec.order().begin(), spec.order().end())},
      {"shape", list(spec.shape())},
      {"elements", spec.numel()},
      {"bytes", spec.numel() * item_bytes(spec.dtype())},
      {"elements_on_all_ranks", totals.elements},
      {"bytes_on_all_ranks", totals.bytes},
      {"largest_piece", totals.largest},
      {"smallest_piece", totals.smallest},
      {"empty_ranks", totals.empty_ranks},
      {"imbalance", totals.imbalance(layout.size())},
      {"local_shapes", std::move(shapes)},
      {"ranks", std::move(ranks)},
      {"ranks_left_out", layout.size() - listed}};
  return result.dump(2);
}

}  // namespace shardlab
