// scenario.h - scenarios run by programs: with ops of their own (ops_with), on a backend of their
// own (register_backend), with a wrapper around every communicator that counts, times or spoils.
//   const ScenarioFile file = ScenarioFile::open("mlp.toml", {});
//   run_scenario(file.at(file.points()[0]), all_ops(), {}).met()
#pragma once

#include "dispatch/all_ops.h"            // IWYU pragma: export
#include "shardlab/shardlab.h"           // IWYU pragma: export
#include "sim/judge/scenario_run.h"      // IWYU pragma: export
#include "sim/scenario/scenario_file.h"  // IWYU pragma: export
