// graph.h - plans of the graph planner from one source to many targets.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plan/successors.h"

namespace shardlab {

/// The cost model under which the graph planner plans a move; nothing where the greedy one does
///
std::optional<CostModel> graph_model(const DTensorSpec& source, const DTensorSpec& target,
                                     std::optional<PlannerKind> planner, PlanRules rules);

/// A search that goes on where it stopped (graph.cpp).
class GraphSearch;

/// Gives what plan_graph gives, target after target. Dijkstra's order does not depend on where a
/// search ends, so that targets with the same edges share one. Holds references to both arguments.
/// For one thread.
class GraphPlans {
 public:
  GraphPlans(const DTensorSpec& source, const PlanOptions& options);
  ~GraphPlans();
  GraphPlans(GraphPlans&&) noexcept;
  GraphPlans& operator=(GraphPlans&&) = delete;

  PlanResult to(const DTensorSpec& target, CostModel model);

 private:
  const DTensorSpec& source_;
  const PlanOptions& options_;
  std::vector<std::unique_ptr<GraphSearch>> searches_;
};

}  // namespace shardlab
