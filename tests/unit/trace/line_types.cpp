// A mesh becomes a layout when its first type is read.
#include "tests/unit/trace/line_types.h"

#include "base/error.h"

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

ParsedType LineTypes::parsed(std::string_view text, std::int64_t mesh) {
  const MeshLayout* on = layout(mesh);
  if (on == nullptr) fail(ErrorKind::kValue, "the graph has no mesh {}", mesh);
  return parse_type(text, *on);
}

ParsedType LineTypes::parsed_plain(std::string_view text) {
  return parse_type(text, *arena_.layout({.shape = {}, .names = {}, .ranks = {}}));
}

}  // namespace shardlab
