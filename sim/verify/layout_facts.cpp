#include "sim/verify/layout_facts.h"

#include <map>

namespace shardlab {

Dims dims_of(const Json& list) {
  Dims dims;
  for (const Json& item : list) dims.push_back(item.get<std::int64_t>());
  return dims;
}

Json json_of(std::span<const std::int64_t> values) {
  return Json(std::vector<std::int64_t>(values.begin(), values.end()));
}

Placements placements_of(const Json& texts) {
  Placements placements;
  for (const Json& text : texts) {
    const auto placement = parse_placement(text.get_ref<const std::string&>());
    if (!placement) fail(ErrorKind::kValue, "'{}' is not a placement", text.dump());
    placements.push_back(*placement);
  }
  return placements;
}

Json texts_of(const Placements& placements) {
  Json texts = Json::array();
  for (const Placement& placement : placements) texts.push_back(to_string(placement));
  return texts;
}

ShardOrder order_of(const Json& entries, std::size_t mesh_ndim) {
  ShardOrder order(mesh_ndim, -1);
  for (const Json& entry : entries) {
    std::int32_t place = 0;
    for (const Json& mesh_dim : entry.at(1)) order[mesh_dim.get<std::size_t>()] = place++;
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
