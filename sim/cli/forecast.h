// forecast.h - an estimate of a scenario's computing time, before it runs.
#pragma once

#include <optional>
#include <string>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// A message for the user when a run's ranks and the run that they are compared with would compute
/// for more than about a minute; nothing for shorter runs, and if shapes alone are not enough to
/// tell. Runs the program without computing anything.
std::optional<std::string> forecast(const Scenario& scenario, const OpRegistry& registry,
                                    const ScenarioOptions& options);

}  // namespace shardlab
