// run_json.h - a scenario run for machines: the facts of run_text as one JSON object.
#pragma once

#include <string>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// One line, keys in alphabetical order; the same bytes for the same run.
std::string run_json(const ScenarioResult& result);

}  // namespace shardlab
