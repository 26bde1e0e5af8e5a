// inputs.h - a scenario's inputs on one rank. Values depend on the scenario's seed and the input's
// name alone: not on mesh, placements or the order of inputs.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "sim/language/run/interpreter.h"
#include "sim/run/reference_calls.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

/// Ranks that hold the same piece of a stored input hold one Buffer, as they do of an input that a
/// kernel has made: what they compute from it is then computed once. Thread-safe.
class SharedInputs {
 public:
  void share(const ScenarioInput& input, const DTensor& piece);

 private:
  std::mutex mutex_;
  // Keyed by input, and by the first rank of those that hold the piece.
  std::map<std::pair<const ScenarioInput*, std::int64_t>, BufferRef> pieces_;
};

/// An input with the value that a rank has of it. `from` belongs to the scenario.
struct GivenInput {
  const ScenarioInput* from = nullptr;
  DTensor value;
};

/// Elements of f32 that are off by up to 32 roundings, either way; other dtypes as they are.
DTensor nudged(const DTensor& plain, std::uint64_t seed);

/// This rank's piece. kReference casts floats to f64 after the draw.
DTensor make_input(const Scenario& scenario, const ScenarioInput& input, const MeshLayout* layout,
                   Precision precision);
/// The whole value as a plain tensor; if the input has partials, the sum of their terms.
DTensor make_plain_input(const Scenario& scenario, const ScenarioInput& input,
                         const MeshLayout* layout, Precision precision);

}  // namespace shardlab
