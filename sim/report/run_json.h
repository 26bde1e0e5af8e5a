// run_json.h - a scenario run for machines: the facts of run_text as one JSON object.
#pragma once

#include <string>

#include "sim/files/json.h"
#include "sim/judge/scenario_run.h"

namespace shardlab {

/// All of it but the events.
Json facts_of_run(const ScenarioResult& result);

/// One line, keys in alphabetical order; the same bytes for the same run.
std::string run_json(const ScenarioResult& result);

}  // namespace shardlab
