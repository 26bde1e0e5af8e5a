// inputs.h - a scenario's inputs on one rank. Values depend on the scenario's seed and the input's
// name alone: not on mesh, placements or the order of inputs.
#pragma once

#include "sim/language/run/interpreter.h"
#include "sim/run/reference_calls.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

/// An input with the value that a rank has of it. `from` belongs to the scenario.
struct GivenInput {
  const ScenarioInput* from = nullptr;
  DTensor value;
};

/// This rank's piece. kReference casts floats to f64 after the draw.
DTensor make_input(const Scenario& scenario, const ScenarioInput& input, const MeshLayout* layout,
                   Precision precision);
/// The whole value as a plain tensor; if the input has partials, the sum of their terms.
DTensor make_plain_input(const Scenario& scenario, const ScenarioInput& input,
                         const MeshLayout* layout, Precision precision);

}  // namespace shardlab
