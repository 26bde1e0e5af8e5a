// The run is one of a scenario without a program; in its place each rank runs its graph.
#include "sim/graph/replay_run.h"

#include <algorithm>
#include <atomic>

#include "base/fix.h"
#include "base/text_of_list.h"
#include "mesh/type_string.h"
#include "schema/op_registry.h"
#include "sim/graph/input_recipe.h"
#include "sim/graph/recorders.h"
#include "sim/run/inputs.h"
#include "sim/run/program_run.h"
#include "sim/world/rank_questions.h"
#include "trace/digest.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

// The number of the rank's graph; if it has none, the number of graphs.
std::uint64_t number_of_graph(const std::vector<ProgramGraph>& graphs, std::int64_t rank) {
  const auto found =
      std::ranges::find_if(graphs, [&](const ProgramGraph& graph) { return graph.of_rank(rank); });
  return static_cast<std::uint64_t>(found - graphs.begin());
}

const ProgramGraph& graph_of(const std::vector<ProgramGraph>& graphs, std::int64_t rank) {
  const std::uint64_t number = number_of_graph(graphs, rank);
  if (number < graphs.size()) return graphs[number];
  Error error(ErrorKind::kValue, fmt::format("the file has no graph for rank {}", rank));
  for (const ProgramGraph& graph : graphs) {
    if (graph.guards.empty() || graph.guards.back().kind != Guard::Kind::kRank) continue;
    const Guard& guard = graph.guards.back();
    error.with("has",
               fmt::format("that of {}{}", guard.expected,
                           guard.line > 0 ? fmt::format(", which part at line {}", guard.line)
                                          : std::string()));
  }
  throw error.with("fix", "capture the program on all ranks");
}

// Fails with Assert if the final bits are not the program's.
void compare_bits(const ProgramGraph& graph, const Replayed& replayed, std::int64_t rank) {
  const auto place =
      graph.ranks.empty() ? rank : std::ranges::find(graph.ranks, rank) - graph.ranks.begin();
  const std::uint64_t then = graph.digests.at(static_cast<std::size_t>(place));
  if (then == replayed.digest) return;
  fail(ErrorKind::kAssert, Fix{"was it captured on another device, or by another version?"},
       "the replay leaves other bits behind than the program did, on rank {}", rank);
}

// Writes down the values of one rank before and after each node.
class ValueTeller final : public ReplayListener {
 public:
  ValueTeller(const ProgramGraph& graph, std::string& out) : graph_(graph), out_(out) {}

  bool begins(std::size_t node, ReplayState& state) override {
    const GraphNode& here = graph_.nodes[node];
    out_ += fmt::format("{:>4}  {}\n", node, node_text(graph_, here));
    for (const GraphArgument& argument : here.args) {
      for_each_value(argument,
                     [&](const ValueRef& value) { tell("takes", value, state.values()); });
    }
    return true;
  }
  void ended(std::size_t node, ReplayState& state) override {
    for (const GraphResult& result : graph_.nodes[node].results) {
      if (result.value.id >= 0) tell("gives", result.value, state.values());
    }
  }

 private:
  void tell(std::string_view what, ValueRef value, const std::vector<DTensor>& values) {
    constexpr std::size_t kShown = 8;
    if (value.id < 0 || static_cast<std::size_t>(value.id) >= values.size()) return;
    const DTensor& x = values[static_cast<std::size_t>(value.id)];
    if (!x.defined()) return;
    const std::vector<Scalar> elements = scalars_of(x.local());
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min(kShown, elements.size()); ++i) {
      texts.push_back(elements[i].text());
    }
    if (elements.size() > kShown) texts.emplace_back("...");
    out_ += fmt::format("        {} %{}  {}  [{}]\n", what, value.id, type_string(x.local().meta()),
                        text_of_list(texts, ", "));
  }

  const ProgramGraph& graph_;
  std::string& out_;
};

// The decisions of a replay are themselves a graph: at its first difference from the graph that was
// run, today's rules differ from the recorded ones.
std::optional<GraphDifference> decided_otherwise(const std::vector<ProgramGraph>& graphs,
                                                 Recorders& recorders) {
  std::vector<std::int64_t> ranks;
  const std::vector<ProgramGraph> now = recorders.take(ranks);
  for (std::size_t i = 0; i < now.size(); ++i) {
    auto difference = first_difference(graph_of(graphs, ranks[i]), now[i]);
    if (difference) return difference;
  }
  return std::nullopt;
}

}  // namespace

ReplayRun replay_on_ranks(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry,
                          const ScenarioOptions& options, const ReplayRunOptions& how) {
  Scenario scenario = scenario_of(graphs.at(0));
  const bool drawn_anew = how.seed && *how.seed != scenario.seed;
  if (drawn_anew) scenario.seed = *how.seed;
  ReplayRun replayed{.run = prepare_run(scenario, registry, options)};
  ProgramRun ranks;
  std::atomic<bool> compared = false;
  ranks.body = [&](const RunsFor& runs, const std::vector<GivenInput>& given) {
    const std::int64_t rank = current_rank().rank;
    // Ranks whose graphs differ are of different classes.
    if (runs.questions != nullptr) {
      runs.questions->ask([&](std::int64_t other) { return number_of_graph(graphs, other); });
    }
    const ProgramGraph& graph = graph_of(graphs, rank);
    std::vector<DTensor> inputs;
    for (const GivenInput& input : given) inputs.push_back(input.value);
    ValueTeller teller(graph, replayed.of_values);
    const bool reports = how.rank == rank;
    const Replayed done = replay(graph, ranks.layout->arena(), inputs,
                                 {.until = how.until, .listener = reports ? &teller : nullptr});
    const bool known = !drawn_anew && done.complete && !graph.digests.empty() &&
                       !current_rank().device->shape_only();
    if (!known) return;
    compare_bits(graph, done, rank);
    compared = true;
  };
  Recorders recorders(replayed.run.layout);
  run_on_ranks(replayed.run, how.pinned ? &recorders : nullptr, ranks);
  replayed.bits_compared = compared;
  if (how.pinned) replayed.otherwise = decided_otherwise(graphs, recorders);
  return replayed;
}

bool fails_alike(const std::vector<ProgramGraph>& graphs, const Error& error) {
  return std::ranges::any_of(graphs, [&](const ProgramGraph& graph) {
    const bool failed = !graph.nodes.empty() && graph.nodes.back().error.has_value();
    return failed && graph.nodes.back().error->message == error.summary();
  });
}

}  // namespace shardlab
