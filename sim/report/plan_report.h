// plan_report.h - every planner's answer for one pair, side by side: the output of `shardlab plan`.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/measure.h"
#include "plan/plan.h"
#include "sim/report/links.h"
#include "sim/report/show.h"

namespace shardlab {

/// One planner's plan, or the reason why it has none, with the figures of its steps.
struct PlannerAnswer {
  PlannerKind planner;
  PlanResult result;
  std::vector<StepFigures> steps;  ///< empty without a plan
  PlanFigures total;
  const Plan* plan() const { return std::get_if<Plan>(&result); }
};

/// All answers for one pair of specs, in the order greedy, graph, bytes.
struct PlanReport {
  const DTensorSpec* source;
  const DTensorSpec* target;
  double priced_us;                   ///< as propagation prices the pair
  std::optional<std::int64_t> bound;  ///< bytes that some rank must receive over the slowest links
  std::vector<PlannerAnswer> answers;
  std::vector<LinkUsed> links;  ///< assumed by predicted times
};

/// Whether the steps of plans are drawn.
enum class Drawings : std::uint8_t { kOff, kOn };

/// Asks the planner of `options`, or all of them. Fails with Value when source and target differ in
/// more than placements.
PlanReport report_plans(const DTensorSpec& source, const DTensorSpec& target,
                        const PlanOptions& options);
/// A table of the planners, then the steps of each; with drawings of the holdings in between.
std::string plan_report_text(const PlanReport& report, Drawings drawings,
                             const DrawOptions& options);
/// The same facts as JSON text on one line.
std::string plan_report_json(const PlanReport& report);

}  // namespace shardlab
