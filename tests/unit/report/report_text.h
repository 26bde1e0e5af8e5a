// report_text.h - specs from their types, and searches in the texts of reports, for tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mesh/type_string.h"

namespace shardlab::test {

/// The spec of a type ("f32[7@x, 6]") on a mesh of these sizes and names.
inline const DTensorSpec* read(Arena& arena, Dims sizes, std::vector<std::string> names,
                               std::string_view text) {
  const MeshLayout* mesh = arena.layout({std::move(sizes), std::move(names), {}});
  const ParsedType type = parse_type(text, *mesh);
  return arena.spec(mesh, type.placements, type.order, contiguous_meta(type.shape, *type.dtype));
}

/// True when `part` is in `text`; the test fails if it is not.
inline bool has(const std::string& text, std::string_view part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace shardlab::test
