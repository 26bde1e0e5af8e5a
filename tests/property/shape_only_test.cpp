// Every shipped scenario on a shape-only mesh has the results that it has on ranks that compute.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "sim/log/event_log.h"
#include "tests/property/shipped_scenarios.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

using namespace test;

// The record of one run, by rank.
struct Seen {
  std::vector<std::string> decisions;
  std::vector<std::string> collectives;
  std::vector<PeakReport> peaks;
  std::vector<std::string> expectations;
  std::string error;
  std::string verdict;
  bool met = false;
  bool by_order = false;  ///< a message is taken from whoever comes first

  // On shapes alone a program ends where it reads values or makes a group across the mesh.
  bool is_refused() const {
    return error.find("holds no values to read") != std::string::npos ||
           error.find("a group that is not a line of the scenario's mesh") != std::string::npos;
  }
};

Seen run_on(const std::string& backend, const Scenario& scenario) {
  Seen seen;
  ScenarioOptions options;
  options.backend = backend;
  options.other_ranks = TraceDetail::kEvents;
  options.traced = [&](const std::vector<const Trace*>& ranks) {
    for (const Trace* trace : ranks) {
      seen.decisions.push_back(decision_log(trace->events()));
      seen.collectives.push_back(collective_log(trace->events()));
    }
  };
  const ScenarioResult result = run_scenario(scenario, all_ops(), options);
  const Run& run = result.run;
  if (!run.shapes_only()) seen.peaks = run.memory.peaks;
  for (const std::size_t index : run.class_of) seen.peaks.push_back(run.memory.peaks[index]);
  for (const ExpectationReport& report : result.judgement.expectations) {
    // Shapes have neither steps of ranks that run nor values; a warning says so.
    if (report.what == "transports" || report.what == "not_verified") {
      CHECK_FALSE(run.shapes_only());
      continue;
    }
    seen.expectations.push_back(report.what + (report.met ? " met " : " not met ") + report.text);
  }
  if (result.run.error) seen.error = result.run.error->text();
  if (result.run.verdict) {
    // The first of the ranks that fail depends on the scheduler.
    const bool failed = result.run.verdict->kind == VerdictKind::kRankFailed;
    seen.verdict = failed ? result.run.verdict->cause : summary(*result.run.verdict);
    if (!failed) seen.verdict += text(*result.run.verdict);
  }
  seen.met = result.met();
  seen.by_order = takes_what_comes_first(result);
  return seen;
}

// Counts of the comparisons.
struct Compared {
  std::size_t ranks = 0, collectives = 0, refused = 0, by_order = 0;
};

void compare(const Scenario& scenario, Compared& compared) {
  const Seen threads = run_on("threads", scenario);
  CHECK(threads.met);
  // Ranks that compute take the first that comes, a class of ranks the lowest that has sent.
  if (threads.by_order) {
    ++compared.by_order;
    return;
  }
  const Seen shapes = run_on("fake", scenario);
  if (shapes.is_refused()) {
    ++compared.refused;
    return;
  }
  CHECK(shapes.met);
  CHECK(shapes.expectations == threads.expectations);
  CHECK(shapes.error == threads.error);
  CHECK(shapes.verdict == threads.verdict);
  // So does the progress of other ranks before they hear of a failure.
  if (!threads.error.empty()) {
    CHECK(shapes.decisions[0] == threads.decisions[0]);
    CHECK(shapes.collectives[0] == threads.collectives[0]);
    return;
  }
  CHECK(shapes.peaks.size() == threads.peaks.size());
  REQUIRE(shapes.decisions.size() == threads.decisions.size());
  for (std::size_t rank = 0; rank < threads.decisions.size(); ++rank) {
    CAPTURE(rank);
    CHECK(shapes.decisions[rank] == threads.decisions[rank]);
    CHECK(shapes.collectives[rank] == threads.collectives[rank]);
    CHECK(shapes.peaks[rank].bytes == threads.peaks[rank].bytes);
    CHECK(shapes.peaks[rank].held == threads.peaks[rank].held);
    CHECK(shapes.peaks[rank].line == threads.peaks[rank].line);
    CHECK(shapes.peaks[rank].pass == threads.peaks[rank].pass);
    compared.collectives += threads.collectives[rank].empty() ? 0 : 1;
    ++compared.ranks;
  }
}

TEST_CASE(
    "a shipped scenario decides and calls the same, on every rank, as on ranks that compute") {
  Compared compared;
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    CAPTURE(shipped.name);
    compare(shipped.scenario, compared);
  }
  CHECK(compared.ranks > 80);
  CHECK(compared.collectives > 40);
  // ops/integers, a loss that refuses negative variances, groups of smoke/torch_distributed, and
  // two mixtures of experts, which count their tokens; two programs that make a second mesh, and
  // two points of training_views, which reads arrays of ranks.
  CHECK(compared.refused == 9);
  CHECK(compared.by_order == 2);  // hangs/any_sender, hangs/any_sender_and_buffers
}

// Both spatial dims are cut, in any two of: equal, uneven and empty pieces, windows that reach
// further than the neighbour, none.
TEST_CASE("B-8 X-38 random convolutions fetch the same from their neighbours, on every rank") {
  std::mt19937 random(7);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Compared compared;
  for (int round = 0; round < 80; ++round) {
    struct {
      std::int64_t ranks, kernel, stride, padding, dilation, size;
    } dims[2];
    for (auto& dim : dims) {
      dim = {between(1, 4), between(1, 5), between(1, 3), between(0, 2), between(1, 2), 0};
      const std::int64_t least = dim.dilation * (dim.kernel - 1) + 1 - 2 * dim.padding;
      dim.size = std::max<std::int64_t>(least, 1) + between(0, 11);
    }
    const auto& [high, wide] = dims;
    const std::string text = fmt::format(
        R"([mesh]
a = {}
b = {}
[inputs]
x = {{ type = "f32[2, 2, {}@a, {}@b]", requires_grad = true }}
w = {{ type = "f32[2, 2, {}, {}]", requires_grad = true }}
[program]
code = """
y = conv2d(x, w, stride=[{}, {}], padding=[{}, {}], dilation=[{}, {}])
backward(y.sum())
"""
[expect]
verify = "none"
)",
        high.ranks, wide.ranks, high.size, wide.size, high.kernel, wide.kernel, high.stride,
        wide.stride, high.padding, wide.padding, high.dilation, wide.dilation);
    CAPTURE(text);
    compare(test::scenario_of(text), compared);
  }
  CHECK(compared.collectives > 300);
}

}  // namespace
}  // namespace shardlab
