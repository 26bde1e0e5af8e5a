// type_sizes.h - the sizes in the text of a type. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardlab {

/// "f32[", 8, "@dp, ", 16, "]": a type whose sizes are numbers, with them apart.
struct TypeSizes {
  explicit TypeSizes(const std::string& text);
  std::string text() const;
  /// Whether a mesh dim cuts a tensor dim.
  bool cuts(const std::string& mesh_dim, std::size_t dim) const;

  std::vector<std::string> between;  ///< one more than sizes
  std::vector<std::int64_t> sizes;
};

}  // namespace shardlab
