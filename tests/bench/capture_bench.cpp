// capture_bench - the cost of a graph in comparison with its program, on one thread:
//   eager      a step of a two-layer MLP, forward and backward, in C++: 4 ranks, decisions cached
//   capture    the same step, once with a recorder around it: at most 3 times eager
//   replay     the captured graph in place of the step: at most 1.1 times eager
//   read       10,000 nodes from a file and through the dispatcher without data: at most 0.3 s
// Least of several rounds, all in one run; ratios are to eager.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "api/distribute.h"
#include "api/tensor_ops.h"
#include "autograd/autograd.h"
#include "autograd/tape.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "propagate/propagator.h"
#include "schema/op_registry.h"
#include "sim/world/devices.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"
#include "trace/capture.h"
#include "trace/graph_json.h"
#include "trace/replay.h"

namespace {

using namespace shardlab;

constexpr std::int64_t kRanks = 4;

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

DTensor filled(const MeshLayout* layout, const Dims& shape, const Placement& placement) {
  const DTensorSpec* spec =
      layout->arena().spec(layout, {placement}, contiguous_meta(shape, DType::kF32));
  Tensor local = empty(*current_rank().device, local_meta(*spec, {current_rank().rank}));
  if (!current_rank().device->shape_only()) {
    std::fill_n(local.mutable_data<float>(), local.numel(), 0.01f);
  }
  return DTensor(std::move(local), spec);
}

std::vector<DTensor> step(const std::vector<DTensor>& in) {
  const DTensor h = relu(matmul(in[0], in[1]));
  const DTensor loss = sum(matmul(h, in[2]));
  const std::vector<DTensor> grads = gradients(loss, {in[1], in[2]});
  return {loss, grads[0], grads[1]};
}

void on_ranks(Device& device, const std::function<void(const MeshLayout*)>& program) {
  OpRegistry ops;
  register_all_ops(ops);
  Arena arena;
  const MeshLayout* layout = arena.layout({{kRanks}, {"tp"}, {}});
  Propagator propagator(ops, {});
  WorldOptions options;
  options.ranks = kRanks;
  options.schedule.workers = 1;
  options.device = [&](std::int64_t) -> Device& { return device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  run_world(options, [&](RankContext& rank) {
    rank.meshes->construct(layout);
    program(layout);
  }).rethrow();
}

// For all ranks together: they take turns on one thread.
double least(const std::function<void()>& work) {
  double best = 1e9;
  ProcessGroup& world = *current_rank().world;
  for (int round = 0; round < 30; ++round) {
    world.barrier();
    const double begin = now();
    for (int i = 0; i < 10; ++i) work();
    world.barrier();
    best = std::min(best, (now() - begin) / 10);
  }
  return best;
}

void steps() {
  const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  on_ranks(*device, [](const MeshLayout* layout) {
    const std::vector<DTensor> inputs = {filled(layout, {30, 64}, Placement::replicate()),
                                         filled(layout, {64, 130}, Placement::shard(1)),
                                         filled(layout, {130, 64}, Placement::shard(0))};
    require_grad(inputs[1]);
    require_grad(inputs[2]);
    const double eager = least([&] { step(inputs); });
    const double captured = least([&] { capture(step, inputs); });
    const CapturedProgram graph = capture(step, inputs);
    const double replayed = least([&] { graph.replay(inputs); });
    if (current_rank().rank != 0) return;
    fmt::print("eager    {:8.1f} us\n", 1e6 * eager);
    fmt::print("capture  {:8.1f} us  {:.2f} (at most 3)\n", 1e6 * captured, captured / eager);
    fmt::print("replay   {:8.1f} us  {:.2f} (at most 1.1)\n", 1e6 * replayed, replayed / eager);
  });
}

void reading() {
  constexpr int kNodes = 10'000;
  const std::unique_ptr<Device> device = make_device({}, "fake");
  on_ranks(*device, [](const MeshLayout* layout) {
    const std::vector<DTensor> inputs = {filled(layout, {30, 64}, Placement::shard(0))};
    const CapturedProgram graph = capture(
        [](const std::vector<DTensor>& in) -> std::vector<DTensor> {
          DTensor x = in[0];
          for (int i = 0; i < kNodes; ++i) x = mul(x, in[0]);
          return {x};
        },
        inputs);
    if (current_rank().rank != 0) return;
    const std::string text = graph_json(graph.graph());
    double read = 1e9, run = 1e9;
    for (int round = 0; round < 5; ++round) {
      const double begin = now();
      const ProgramGraph again = read_graphs(text).at(0);
      const double middle = now();
      replay(again, layout->arena(), inputs);
      read = std::min(read, middle - begin);
      run = std::min(run, now() - middle);
    }
    fmt::print("read     {:8.3f} s, propagated {:.3f} s (at most 0.3 together)\n", read, run);
  });
}

}  // namespace

int main() {
  steps();
  reading();
}
