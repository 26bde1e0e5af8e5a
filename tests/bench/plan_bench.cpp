// Planning and pricing: microseconds of one call (Google Benchmark's Time column).
//   cold plan   plan_greedy or plan_graph from nothing, specs interned before
//   plan hit    PlanCache::find of a known pair
//   cost        redistribute_cost of a candidate's input, as propagation asks for it

#include <benchmark/benchmark.h>

#include "plan/plan.h"

namespace shardlab {
namespace {

/// Pairs that need several steps, on meshes of 2 and 4 dims.
struct Pair {
  Arena arena;
  const DTensorSpec* source;
  const DTensorSpec* target;

  explicit Pair(std::int64_t mesh_dims) {
    const Dims mesh(static_cast<std::size_t>(mesh_dims), 2);
    const MeshLayout* layout = arena.layout({mesh, {}, {}});
    const TensorMeta meta = contiguous_meta(Dims{64, 64, 64}, DType::kF32);
    Placements from, to;
    for (std::int64_t dim = 0; dim < mesh_dims; ++dim) {
      from.push_back(dim % 2 == 0 ? Placement::shard(0) : Placement::partial());
      to.push_back(dim % 2 == 0 ? Placement::replicate() : Placement::shard(0));
    }
    source = arena.spec(layout, from, meta);
    target = arena.spec(layout, to, meta);
  }
};

void cold_greedy_plan(benchmark::State& state) {
  const Pair pair(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan_greedy(*pair.source, *pair.target, PlanRules::kV2_15));
  }
}
BENCHMARK(cold_greedy_plan)->ArgName("mesh_dims")->Arg(2)->Arg(4);

void cold_graph_plan(benchmark::State& state) {
  const Pair pair(state.range(0));
  const PlanOptions options;
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan_graph(*pair.source, *pair.target, CostModel::kTime, options));
  }
}
BENCHMARK(cold_graph_plan)->ArgName("mesh_dims")->Arg(2)->Arg(4);

void plan_hit(benchmark::State& state) {
  const Pair pair(2);
  PlanCache cache{PlanOptions{}};
  for (auto _ : state) benchmark::DoNotOptimize(&cache.find(pair.source, pair.target));
}
BENCHMARK(plan_hit);

void cost(benchmark::State& state) {
  const Pair pair(state.range(0));
  const PlanOptions options;
  for (auto _ : state) {
    benchmark::DoNotOptimize(redistribute_cost(*pair.source, pair.target->placements(), options));
  }
}
BENCHMARK(cost)->ArgName("mesh_dims")->Arg(2)->Arg(4);

}  // namespace
}  // namespace shardlab

BENCHMARK_MAIN();
