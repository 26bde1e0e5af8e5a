// html_report.h - a run as one page for a browser: offline, in one file, with the holdings of
// ranks, the table by line, memory and verdicts. The facts are those of run_json.
#pragma once

#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// The page's data of one run, as JSON text: run_json without its events, the source, the output of
/// run_text, the calls of all ranks, and for each type that the run has on a mesh the part that
/// every rank holds.
std::string html_run(const ScenarioResult& result);

/// The page of these runs, each the result of html_run(). The same bytes for the same runs.
std::string html_page(const std::vector<std::string>& runs);

}  // namespace shardlab
