// type_inference.h - the types of spmd_types that the values of a program have, found by runs in
// which each name is claimed to be V: the judge then says what its values and gradients are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"
#include "sim/types/inferred_type.h"

namespace shardlab {

///   fails  ScenarioError: the scenario cannot run as it is written
InferredTypes infer_types(const Scenario& scenario, const ScenarioOptions& options);

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
