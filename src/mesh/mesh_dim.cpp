// One refusal for all callers.
#include "mesh/mesh_dim.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_dim(const MeshLayout& layout, std::string_view asker,
                             const std::string& written, std::string_view name) {
  throw Error(ErrorKind::kValue, fmt::format("{}: {} is not a mesh dim", asker, written))
      .with("mesh", layout.text())
      .with("fix", suggest(name, layout.names()));
}

}  // namespace

std::size_t mesh_dim_named(const MeshLayout& layout, std::string_view name,
                           std::string_view asker) {
  if (const auto dim = layout.find_dim(name)) return *dim;
  refuse_dim(layout, asker, fmt::format("'{}'", name), name);
}

std::size_t mesh_dim_numbered(const MeshLayout& layout, std::int64_t number,
                              std::string_view asker) {
  const auto count = static_cast<std::int64_t>(layout.ndim());
  if (number < -count || number >= count) {
    refuse_dim(layout, asker, fmt::format("{}", number), "");
  }
  return static_cast<std::size_t>(number < 0 ? number + count : number);
}

}  // namespace shardlab
