// The ranks run with recorders around their calls; their records are joined, and described by the
// scenario's facts.
#include "sim/graph/capture.h"

#include <algorithm>

#include "base/error.h"
#include "base/policies.h"
#include "comm/verdict.h"
#include "schema/op_registry.h"
#include "sim/graph/recorders.h"
#include "sim/run/program_run.h"
#include "sim/world/backends.h"
#include "trace/capture.h"
#include "trace/compare_graphs.h"

namespace shardlab {

namespace {

GraphPolicies policies_of(const Scenario& scenario) {
  GraphPolicies policies;
  if (scenario.planner) policies.planner = to_string(*scenario.planner);
  policies.implicit = policy_name(scenario.expect.implicit);
  policies.mixed = policy_name(MixedTensors::kRefuse);
  for (const ScenarioRule& rule : scenario.rules) {
    policies.rules.push_back(
        {rule.op, rule.rule, rule.local != nullptr ? rule.local->source->text() : ""});
  }
  for (const TopologyDim& dim : scenario.topology) {
    policies.links.push_back({dim.mesh_dim, dim.gbps, dim.us});
  }
  return policies;
}

// The first line that needed a guard's fact: of an input the first node that takes it, of other
// facts the first call.
std::int32_t line_of(const Guard& guard, const ProgramGraph& graph) {
  ValueRef wanted;
  const std::string source = guard.source.substr(0, guard.source.find(".shape["));
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == NodeKind::kInput && source == "inputs." + node.name) {
      wanted = node.results[0].value;
    }
  }
  const bool of_input = guard.source.starts_with("inputs.");
  for (const GraphNode& node : graph.nodes) {
    bool needs = !of_input;
    for (const GraphArgument& argument : node.args) {
      for_each_value(argument, [&](const ValueRef& value) { needs |= value == wanted; });
    }
    if (needs && node.line > 0) return node.line;
  }
  return 0;
}

void describe(ProgramGraph& graph, const Scenario& scenario, bool alone,
              const std::optional<std::int32_t>& sized_at) {
  graph.title = scenario.title;
  graph.file = scenario.file->file();
  graph.world = scenario.world;
  graph.seed = scenario.seed;
  graph.policies = policies_of(scenario);
  graph.guards = facts_of(scenario);
  if (graph.dynamic) {
    graph.sizes = size_params(scenario);
    graph.guards = guards_of(std::move(graph.guards), sized_at);
  }
  for (Guard& guard : graph.guards) {
    if (guard.line == 0) guard.line = line_of(guard, graph);
  }
  if (alone) {
    graph.ranks.clear();
    return;
  }
  graph.guards.push_back(
      {.kind = Guard::Kind::kRank, .source = "rank", .expected = fold_ranks(graph.ranks)});
}

// A graph depends on its ranks from the line on at which it differs from that of other ranks.
void note_where_ranks_part(std::vector<ProgramGraph>& graphs) {
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    std::size_t first = graphs[i].nodes.size();
    for (std::size_t other = 0; other < graphs.size(); ++other) {
      if (i != 0 && other != 0) continue;  // one of the two is the first: all others differ from it
      const auto difference = first_difference(graphs[i], graphs[other]);
      if (difference) first = std::min(first, difference->node);
    }
    if (first < graphs[i].nodes.size()) graphs[i].guards.back().line = graphs[i].nodes[first].line;
  }
}

// On a shape-only mesh a graph represents all ranks of its class.
void spread_over_classes(std::vector<ProgramGraph>& graphs, const Run& run) {
  for (ProgramGraph& graph : graphs) {
    graph.digests.clear();
    if (run.class_of.empty()) continue;
    std::vector<std::int64_t> all;
    for (std::size_t rank = 0; rank < run.class_of.size(); ++rank) {
      const std::int64_t first = run.classes[run.class_of[rank]].first_rank;
      if (std::ranges::binary_search(graph.ranks, first)) {
        all.push_back(static_cast<std::int64_t>(rank));
      }
    }
    if (!all.empty()) graph.ranks = std::move(all);
  }
}

}  // namespace

std::vector<ProgramGraph> graphs_of(const Run& run, Recorders& recorders, const RankChoice& ranks,
                                    std::vector<ProgramGraph>* of_ranks) {
  std::vector<std::int64_t> rank_of;
  std::vector<ProgramGraph> single = recorders.take(rank_of);
  for (const std::int64_t rank : ranks.all ? rank_of : ranks.ranks) {
    const auto found = std::ranges::find(rank_of, rank);
    if (found == rank_of.end()) {
      fail(Fix{"give a rank of the world; on fake the first one of a class"},
           "rank {} was not captured", rank);
    }
    of_ranks->push_back(single[static_cast<std::size_t>(found - rank_of.begin())]);
  }
  std::vector<ProgramGraph> graphs = joined(std::move(single), rank_of);
  if (run.shapes_only()) spread_over_classes(graphs, run);
  const std::optional<std::int32_t> sized_at = recorders.sized_at();
  for (ProgramGraph& graph : graphs) describe(graph, run.scenario, graphs.size() == 1, sized_at);
  if (graphs.size() > 1) note_where_ranks_part(graphs);
  return graphs;
}

void refuse_processes(const ScenarioOptions& options) {
  if (find_backend(options.backend).processes == nullptr) return;
  fail(ErrorKind::kUnsupported,
       Fix{"capture with --backend threads --out g.json, then shardlab replay g.json --backend " +
           options.backend},
       "graphs are captured in one process, and backend {} has one for each rank", options.backend);
}

Captured capture_scenario(const Scenario& scenario, const OpRegistry& registry,
                          const ScenarioOptions& options, const RankChoice& ranks) {
  refuse_processes(options);
  Captured captured{.run = prepare_run(scenario, registry, options)};
  ProgramRun program;
  Recorders recorders(captured.run.layout);
  run_on_ranks(captured.run, &recorders, program);
  captured.graphs = graphs_of(captured.run, recorders, ranks, &captured.of_ranks);
  return captured;
}

}  // namespace shardlab
