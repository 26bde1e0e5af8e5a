// mlp_bench - one steady forward step of an MLP, tensor parallel: y = relu(x @ w1) @ w2,
// all-reduced, with x 64 x 512, w1 512 x 2048 cut by columns, w2 2048 x 512 cut by rows, f32. Time:
// from the meeting before a step to the one after it, decisions cached, the least of many rounds.
// `workers`: OS threads of the scheduler pool. `one_device_ms`: the same program unsharded, on one
// thread, in the same run; `ratio`: step over it.
#include <benchmark/benchmark.h>

#include <ctime>

#include "api/distribute.h"
#include "autograd/autograd.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "propagate/propagator.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"

namespace {

using namespace shardlab;

// Processor time of the thread on which all ranks run, which other programs disturb least, or, on
// several threads, time.
double now(std::int64_t workers) {
  timespec time{};
  clock_gettime(workers == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

DTensor weight(const MeshLayout* layout, const Dims& shape, const Placement& placement) {
  const DTensorSpec* spec =
      layout->arena().spec(layout, {placement}, contiguous_meta(shape, DType::kF32));
  Tensor local = empty(*current_rank().device, local_meta(*spec, {current_rank().rank}));
  std::fill_n(local.mutable_data<float>(), local.numel(), 0.01f);
  return DTensor(std::move(local), spec);
}

// Seconds of one step of all ranks, the least of several rounds.
double step_seconds(std::int64_t ranks, std::int64_t workers) {
  OpRegistry ops;
  register_all_ops(ops);
  Arena arena;
  const MeshLayout* layout = arena.layout({{ranks}, {"tp"}, {}});
  Propagator propagator(ops, {});
  const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  WorldOptions options;
  options.ranks = ranks;
  options.schedule.workers = workers;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  const OpRow& mm = ops.at("aten::mm");
  const OpRow& relu = ops.at("aten::relu");
  double best = 1e9;
  run_world(options, [&](RankContext& rank) {
    rank.meshes->construct(layout);
    const DTensor x = weight(layout, {64, 512}, Placement::replicate());
    const DTensor w1 = weight(layout, {512, 2048}, Placement::shard(1));
    const DTensor w2 = weight(layout, {2048, 512}, Placement::shard(0));
    Calls& calls = plain_calls();
    for (int round = 0; round < 30; ++round) {
      rank.world->barrier();
      const double begin = now(workers);
      const DTensor h = calls.call(relu, {calls.call(mm, {x, w1})[0].tensor()})[0].tensor();
      const DTensor y = calls.redistribute(calls.call(mm, {h, w2})[0].tensor(), {Placement()});
      benchmark::DoNotOptimize(y.local().data<float>());
      rank.world->barrier();
      if (rank.rank == 0) best = std::min(best, now(workers) - begin);
    }
  }).rethrow();
  return best;
}

void mlp_forward(benchmark::State& state) {
  const double alone = step_seconds(1, 1);
  double best = 1e9;
  for (auto _ : state) {
    const double seconds = step_seconds(state.range(0), state.range(1));
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["best_ms"] = 1e3 * best;
  state.counters["one_device_ms"] = 1e3 * alone;
  state.counters["ratio"] = best / alone;
}
BENCHMARK(mlp_forward)
    ->ArgNames({"ranks", "workers"})
    ->ArgsProduct({{8, 64, 256}, {1, 2}})
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
