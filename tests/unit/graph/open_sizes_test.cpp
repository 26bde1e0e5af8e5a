// A graph whose inputs have dynamic dims, run for other sizes: its final values are those of the
// program itself for these sizes, bit by bit.
#include "sim/graph/open_sizes.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/graph/capture.h"
#include "sim/graph/trace_report.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {
namespace {

constexpr const char* kRows = R"toml(
title = "rows may be others"
seed = 3
[mesh]
dp = 2
[params]
rows = 6
[inputs]
x = { type = "f32[rows@dp, 2*rows]", dynamic = true }
w = { type = "f32[4]", requires_grad = true }
[program]
code = """
loss = ((x.view(x.shape[0] * x.shape[1] // 4, 4) * w).tanh().sum(0) / x.shape[0]).sum()
loss.backward()
"""
)toml";

struct SizedProgram {
  SizedProgram() { register_all_ops(registry); }

  Captured captured(const std::string& rows) const {
    const ScenarioFile file =
        ScenarioFile::read(std::make_shared<const SourceText>("t.toml", kRows),
                           {parse_setting("params.rows=" + rows)});
    return capture_scenario(file.at(file.points().at(0)), registry, {});
  }
  /// "fine", or the difference, of a graph of 6 rows that is run for others and compared with the
  /// program.
  std::string replayed(std::int64_t rows) const {
    std::vector<ProgramGraph> graphs = captured("6").graphs;
    try {
      graphs = with_sizes(std::move(graphs), {{"rows", rows}});
    } catch (const Error& error) {
      return error.summary();
    }
    const Captured own = captured(std::to_string(rows));
    REQUIRE(own.graphs.size() == graphs.size());
    for (std::size_t i = 0; i < graphs.size(); ++i) graphs[i].digests = own.graphs[i].digests;
    const ReplayRun run = replay_on_ranks(graphs, registry, {});
    CHECK(run.bits_compared);
    return run.run.error ? run.run.error->summary() : "fine";
  }

  OpRegistry registry;
};

TEST_CASE("T-59 the graph of a scenario with dynamic inputs leaves the bits of other sizes, too") {
  const SizedProgram program;
  for (const std::int64_t rows : {2, 6, 8, 20}) CHECK(program.replayed(rows) == "fine");
}

TEST_CASE("T-4 a size of an input that the guards of a scenario's graph do not admit is refused") {
  const SizedProgram program;
  CHECK(program.replayed(7) == "the graph does not fit: inputs.x.shape[0] % 2 is not 0, and was 0");
  CHECK(program.replayed(0) ==
        "the graph does not fit: inputs.x.shape[0] >= 2 is False, and was True");
}

}  // namespace
}  // namespace shardlab
