// class_run.h - a scenario on a shape-only mesh: its program runs once for each class of ranks.
#pragma once

#include "sim/run/program_run.h"

namespace shardlab {

class Propagator;

/// Fills in what was seen, by class. The layout lives in an arena of this run.
///   fails  Unsupported: more than 4,096 classes
void execute_classes(ProgramRun& run, Propagator& propagator, const ScenarioOptions& options);

}  // namespace shardlab
