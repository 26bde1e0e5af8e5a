// mlp_bench - one steady step of an MLP, tensor parallel: y = relu(x @ w1) @ w2, all-reduced, with
// x 64 x 512, w1 512 x 2048 cut by columns, w2 2048 x 512 cut by rows, f32.
//   mlp_forward   y alone
//   mlp_backward  y, recorded, and the gradients of x, all-reduced, w1 and w2
// Time: from the meeting before a step to the one after it, decisions cached, the least of many
// rounds.
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
#include "dispatch/plain_calls.h"
#include "kernels/cpu_kernels.h"
#include "propagate/propagator.h"
#include "schema/calls.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
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

struct Mlp {
  DTensor x, w1, w2, seed;
  const OpRow& mm;
  const OpRow& relu;

  DTensor forward(Calls& calls) const {
    const DTensor h = calls.call(relu, {calls.call(mm, {x, w1})[0].tensor()})[0].tensor();
    return calls.redistribute(calls.call(mm, {h, w2})[0].tensor(), {Placement()});
  }
  void forward_and_backward() const {
    Calls& calls = recording_calls();
    const DTensor y = forward(calls);
    const std::vector<DTensor> grads = gradients(y, {x, w1, w2}, seed);
    const DTensor of_x = plain_calls().redistribute(grads[0], {Placement()});
    for (const DTensor& result : {y, of_x, grads[1], grads[2]}) {
      benchmark::DoNotOptimize(result.local().data<float>());
    }
  }
};

enum class Step : std::uint8_t { kForward, kForwardAndBackward };

// Seconds of one step of all ranks, the least of several rounds.
double step_seconds(Step step, std::int64_t ranks, std::int64_t workers) {
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
  double best = 1e9;
  run_world(options, [&](RankContext& rank) {
    rank.meshes->construct(layout);
    const Mlp mlp{weight(layout, {64, 512}, Placement::replicate()),
                  weight(layout, {512, 2048}, Placement::shard(1)),
                  weight(layout, {2048, 512}, Placement::shard(0)),
                  weight(layout, {64, 512}, Placement::replicate()),
                  ops.at("aten::mm"),
                  ops.at("aten::relu")};
    if (step == Step::kForwardAndBackward) {
      for (const DTensor& leaf : {mlp.x, mlp.w1, mlp.w2}) require_grad(leaf);
    }
    for (int round = 0; round < 30; ++round) {
      rank.world->barrier();
      const double begin = now(workers);
      if (step == Step::kForward) {
        benchmark::DoNotOptimize(mlp.forward(plain_calls()).local().data<float>());
      } else {
        mlp.forward_and_backward();
      }
      rank.world->barrier();
      if (rank.rank == 0) best = std::min(best, now(workers) - begin);
    }
  }).rethrow();
  return best;
}

void measure(benchmark::State& state, Step step) {
  const double alone = step_seconds(step, 1, 1);
  double best = 1e9;
  for (auto _ : state) {
    const double seconds = step_seconds(step, state.range(0), state.range(1));
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["best_ms"] = 1e3 * best;
  state.counters["one_device_ms"] = 1e3 * alone;
  state.counters["ratio"] = best / alone;
}

void mlp_forward(benchmark::State& state) { measure(state, Step::kForward); }
void mlp_backward(benchmark::State& state) { measure(state, Step::kForwardAndBackward); }

void on_ranks_and_workers(benchmark::internal::Benchmark* one) {
  one->ArgNames({"ranks", "workers"})
      ->ArgsProduct({{8, 64, 256}, {1, 2}})
      ->UseManualTime()
      ->Iterations(3)
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(mlp_forward)->Apply(on_ranks_and_workers);
BENCHMARK(mlp_backward)->Apply(on_ranks_and_workers);

}  // namespace

BENCHMARK_MAIN();
