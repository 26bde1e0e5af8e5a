// type_inference.h - the types of spmd_types that the values of a program have, found by runs in
// which each name is claimed to be V: the judge then says what its values and gradients are.
#pragma once

#include "sim/judge/scenario_run.h"
#include "sim/types/inferred_type.h"

namespace shardlab {

///   fails  ScenarioError: the scenario cannot run as it is written
InferredTypes infer_types(const Scenario& scenario, const ScenarioOptions& options);

}  // namespace shardlab
