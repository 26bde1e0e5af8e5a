// class_run.h - a scenario on a shape-only mesh: its program runs once for each class of ranks.
#pragma once

#include "sim/run/program_run.h"

namespace shardlab {

class Propagator;

/// execute() by class; the layout lives in an arena of this run. Private to execute().
void execute_classes(ProgramRun& run, Propagator& propagator, std::int64_t ranks,
                     const ScenarioOptions& options);

}  // namespace shardlab
