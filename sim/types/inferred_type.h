// inferred_type.h - the types that values were found to have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/mesh_layout.h"

namespace shardlab {

/// The types of a name after the statement that gives it a value, on all passes through it; of a
/// recording those of a call's result.
struct InferredType {
  std::string name;  ///< inside of a def "function.name"; of a recording "model.py linear"
  std::int64_t line = 0;
  std::string held;  ///< "f32[4, 8]": what the first rank holds
  /// A type for each mesh dim, "R" or "S(0)", "?" where this cannot be said. Empty for those of
  /// size 1, and those that the value's own mesh has not.
  std::vector<std::string> types;
  std::string why;  ///< of what is open, or how R and I were told apart
};

struct InferredTypes {
  const MeshLayout* mesh = nullptr;
  std::vector<InferredType> values;  ///< in the order of the text
  std::string failure;               ///< of the run; empty: it ran to its end
  /// The program with assert_type after names that get an input, a result of a def or of a move,
  /// or parameters; of those alone whose types are known. Has no further ones the second time.
  std::string annotated;
};

}  // namespace shardlab
