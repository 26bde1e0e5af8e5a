// inputs.h - a scenario's inputs on one rank. Values depend on the scenario's seed and the input's
// name alone: not on mesh, placements or the order of inputs.
#pragma once

#include "sim/language/run/interpreter.h"
#include "sim/run/reference_calls.h"
#include "sim/scenario/scenario.h"
#include "trace/graph.h"

namespace shardlab {

/// An input with the value that a rank has of it. `from` belongs to the scenario.
struct GivenInput {
  const ScenarioInput* from = nullptr;
  DTensor value;
};

/// How its elements come about, as graphs and programs in C++ say it.
InputRecipe recipe_of(const ScenarioInput& input);

/// The spec an input or an expectation names, on `layout`.
///   fails  ScenarioError at the type string: unknown mesh dims, cuts outside the shape
const DTensorSpec* spec_of(const TypeText& type, const MeshLayout* layout, DType fallback);

/// This rank's piece. kReference casts floats to f64 after the draw.
DTensor make_input(const Scenario& scenario, const ScenarioInput& input, const MeshLayout* layout,
                   Precision precision);
/// The whole value as a plain tensor; where the input has partials, what their terms add up to.
DTensor make_plain_input(const Scenario& scenario, const ScenarioInput& input,
                         const MeshLayout* layout, Precision precision);

}  // namespace shardlab
