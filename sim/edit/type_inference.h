// type_inference.h - the types of spmd_types that the values of a program have, found by runs in
// which each name is claimed to be V: the judge then says what its values and gradients are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// The types of a name after the statement that gives it a value, on all passes through it.
struct InferredType {
  std::string name;  ///< inside of a def "function.name"
  std::int64_t line = 0;
  std::string held;  ///< "f32[4, 8]": what the first rank holds
  /// A type for each mesh dim, "R" or "S(0)", "?" where this cannot be said. Empty for those of
  /// size 1.
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

///   fails  ScenarioError: the scenario cannot run as it is written
InferredTypes infer_types(const Scenario& scenario, const OpRegistry& registry,
                          const ScenarioOptions& options);

}  // namespace shardlab
