// verdict_text.h - the verdict on a run for people.
#pragma once

#include <string>

#include "sim/report/report_lines.h"

namespace shardlab {

/// Single calls, values with the way of comparison, and expectations.
std::string verdict_text(const ScenarioResult& result, const RunTextOptions& options);

}  // namespace shardlab
