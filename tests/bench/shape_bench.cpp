// shape_bench - the Megatron MLP of scenarios/models, forward and backward, on a shape-only mesh:
// milliseconds of one whole run (Google Benchmark's Time column), decisions made anew. `classes`:
// how many kinds of ranks there are; `held_KiB`: the most that one rank would hold. Runs from the
// repository's root.
#include <benchmark/benchmark.h>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/judge/scenario_run.h"
#include "sim/scenario/scenario_file.h"

namespace {

using namespace shardlab;

// 8 x tp ranks; one feature more than the mesh dim divides, so that pieces are uneven.
void megatron_mlp(benchmark::State& state) {
  OpRegistry ops;
  register_all_ops(ops);
  const std::int64_t tp = state.range(0) / 8;
  const ScenarioFile file =
      ScenarioFile::open("scenarios/models/megatron_mlp.toml",
                         {parse_setting("mesh.dp=8"), parse_setting(fmt::format("mesh.tp={}", tp)),
                          parse_setting(fmt::format("params.hidden={}", tp / 4 + 1))});
  const Scenario scenario = file.at(file.points().front());
  ScenarioOptions options;
  options.backend = "fake";
  for (auto _ : state) {
    const ScenarioResult result = run_scenario(scenario, ops, options);
    if (result.run.error) state.SkipWithError(result.run.error->summary().c_str());
    state.counters["classes"] = static_cast<double>(result.run.classes.size());
    state.counters["held_KiB"] = static_cast<double>(result.run.memory.largest().bytes) / 1024.0;
  }
}
BENCHMARK(megatron_mlp)
    ->ArgName("ranks")
    ->Arg(1 << 16)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
