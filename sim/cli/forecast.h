// forecast.h - how long a scenario would compute, before it does.
#pragma once

#include <optional>
#include <string>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// What to tell who starts a run whose ranks, and what they are compared with, would compute for
/// more than about a minute; nothing for others, and where shapes alone do not say. Runs the
/// program without computing anything.
std::optional<std::string> forecast(const Scenario& scenario, const OpRegistry& registry,
                                    const ScenarioOptions& options);

}  // namespace shardlab
