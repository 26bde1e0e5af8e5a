// step_scenario.h - a recorded training step as a scenario: one statement for each call, gradients
// by our own tape. The only place in which a recording becomes a program.
#pragma once

#include <optional>
#include <string>

#include "sim/capture/step_plan.h"
#include "sim/capture/step_program.h"

namespace shardlab {

/// The TOML of a scenario that is stored next to the recording, from which it reads its inputs.
/// With `dtype` all floating tensors have that dtype.
///   fails  Unsupported: an argument that programs cannot write
std::string step_scenario(const StepProgram& program, const StepMesh& mesh, const StepPlan& plan,
                          std::optional<DType> dtype = std::nullopt);

}  // namespace shardlab
