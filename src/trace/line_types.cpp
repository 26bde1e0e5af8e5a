// A type string names the mesh dims that cut a dim, in order, and those that wait for a reduction.
// Placements that it cannot express (strided ones, which print as the order that they mean; those
// on dims that the shape does not have) are written out next to it. Reading the string shows
// whether it expresses them; no rule has to know how it is printed.
#include "trace/line_types.h"

#include <algorithm>

#include "base/fix.h"
#include "base/text_of_list.h"
#include "mesh/spec.h"

namespace shardlab {

const MeshLayout* LineTypes::layout(std::int64_t mesh) {
  if (mesh < 0 || static_cast<std::size_t>(mesh) >= meshes_.size()) return nullptr;
  const auto index = static_cast<std::size_t>(mesh);
  if (layouts_[index] != nullptr) return layouts_[index];
  try {
    layouts_[index] =
        arena_.layout({.shape = meshes_[index].shape, .names = meshes_[index].names, .ranks = {}});
  } catch (const Error&) {
    return nullptr;
  }
  return layouts_[index];
}

std::string LineTypes::in_type_string(const ValueType& type) {
  const MeshLayout* mesh = layout(type.mesh);
  if (mesh == nullptr || type.placements.size() != mesh->ndim()) return "";
  // The order of a strided shard is not in the text alone, and finding it takes time.
  if (std::ranges::any_of(type.placements, &Placement::is_strided_shard)) return "";
  const ShardOrder order = type.order.empty() ? default_order(type.placements) : type.order;
  if (order.size() != type.placements.size()) return "";
  std::string text =
      type_string(*mesh, type.placements, order, TensorMeta{type.shape, type.stride, type.dtype});
  try {
    const ParsedType read = parse_type(text, *mesh);
    const bool same = read.dtype == type.dtype && read.shape == type.shape &&
                      read.placements == type.placements && read.order == order;
    return same ? text : "";
  } catch (const Error&) {
    return "";
  }
}

std::string LineTypes::text(const ValueType& type) {
  std::string text = type.mesh < 0 ? "" : in_type_string(type);
  if (text.empty()) {
    text = type_string(TensorMeta{type.shape, type.stride, type.dtype});
    if (type.mesh < 0) {
      text += " local";
    } else {
      std::vector<std::string> placements;
      for (const Placement& placement : type.placements) {
        placements.push_back(fmt::format("\"{}\"", to_string(placement)));
      }
      text += fmt::format(" placements=[{}]", text_of_list(placements, ", "));
      const bool usual = type.order.empty() || type.order == default_order(type.placements);
      if (!usual) text += fmt::format(" order=[{}]", text_of_list(type.order, ", "));
    }
  }
  if (type.mesh > 0) text += fmt::format(" mesh={}", type.mesh);
  if (type.stride != contiguous_strides(type.shape)) {
    text += fmt::format(" stride=[{}]", text_of_list(type.stride, ", "));
  }
  return text;
}

ParsedType LineTypes::parsed(std::string_view text, std::int64_t mesh) {
  const MeshLayout* on = layout(mesh);
  if (on == nullptr) fail(ErrorKind::kValue, "the graph has no mesh {}", mesh);
  return parse_type(text, *on);
}

ParsedType LineTypes::parsed_plain(std::string_view text) {
  return parse_type(text, *arena_.layout({.shape = {}, .names = {}, .ranks = {}}));
}

}  // namespace shardlab
