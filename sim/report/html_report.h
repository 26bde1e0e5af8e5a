// html_report.h - a run as one page for a browser: offline, in one file, with who holds what, the
// table by line, memory and verdicts. The facts are those of run_json.
#pragma once

#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// What the page knows of one run, as JSON text: run_json without its events, the source, what
/// run_text prints, and for each type that the run has on a mesh which part of it every rank holds.
std::string html_run(const ScenarioResult& result);

/// The page of these runs, each as html_run() gave it. The same bytes for the same runs.
std::string html_page(const std::vector<std::string>& runs);

}  // namespace shardlab
