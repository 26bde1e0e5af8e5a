// JSON to our types and back. Counts of damaged lines are bounded before anything is built from
// them.
#include "tests/facts/layout_facts.h"

#include <map>

#include "tests/facts/fact_json.h"

namespace shardlab {

std::int64_t count_of(const Json& number) {
  constexpr std::int64_t kMost = 65536;
  const auto count = integer_of<std::int64_t>(number);
  if (count < 0) fail(ErrorKind::kValue, "{} pieces", count);
  if (count > kMost) fail(ErrorKind::kValue, "{} pieces, facts have at most {}", count, kMost);
  return count;
}

const MeshLayout* mesh_of(Arena& arena, const Json& sizes) {
  const MeshLayout* layout = arena.layout({dims_of(sizes), {}, {}});
  count_of(layout->size());
  return layout;
}

ShardOrder order_of(const Json& entries, std::size_t mesh_ndim) {
  ShardOrder order(mesh_ndim, -1);
  for (const Json& entry : entries) {
    std::int32_t place = 0;
    for (const Json& mesh_dim : entry.at(1)) {
      const auto dim = integer_of<std::size_t>(mesh_dim);
      if (dim >= mesh_ndim)
        fail(ErrorKind::kValue, "an order of mesh dim {} of {}", dim, mesh_ndim);
      order[dim] = place++;
    }
  }
  return order;
}

Json json_of(const Placements& placements, const ShardOrder& order) {
  std::map<std::int32_t, Json> entries;
  for (const Placement& placement : placements) {
    if (!placement.is_shard()) continue;
    Json mesh_dims = Json::array();
    for (const std::size_t mesh_dim : cutting_order(placements, order, placement.dim)) {
      mesh_dims.push_back(mesh_dim);
    }
    entries[placement.dim] = std::move(mesh_dims);
  }
  Json result = Json::array();
  for (auto& [tensor_dim, mesh_dims] : entries) {
    result.push_back(Json::array({tensor_dim, std::move(mesh_dims)}));
  }
  return result;
}

std::string our_spelling(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t start = text.find("_S(");
    result += text.substr(0, start);
    if (start == std::string_view::npos) break;
    const std::size_t end = text.find(')', start);
    const auto placement = parse_placement(text.substr(start, end - start + 1));
    if (!placement) fail(ErrorKind::kValue, "'{}' is not a placement", text.substr(start));
    result += to_string(*placement);
    text.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace shardlab
