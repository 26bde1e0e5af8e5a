// dispatch_bench - the cost of one op besides its kernel, on one rank of a mesh of two, f32[8@x]:
//   kernel           the local kernel alone, its output at hand: the floor of what follows
//   kernel           the local kernel alone, its output at hand: the floor of the rows below
//   `allocations`
//                    (operator new and malloc'd buffers are counted apart) are per call
//   by_name          the same through Calls::one: look-up by name, arguments bound, tape asked
//   by_function      the same as programs write it, x + y, which notes the line of the call
//   view, transpose  of a handle, no kernel: f32[8@x, 4] as f32[8@x, 2, 2], and turned
//   unwrap_call      a call's OpSchema and slots alone
//   mm_and_gradients mm of f32[8@x, 8] and f32[8, 8], recorded, and both gradients; its floor are
//                    the three products
//   ranks_at_once    add on 64 ranks on one OS thread and on two: `speed_up` is best 2
// The cost of a decision is measured by propagate_bench. All figures are of this run.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>

#include "api/tensor_ops.h"
#include "autograd/autograd.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "dispatch/all_ops.h"
#include "dispatch/dispatcher.h"
#include "dispatch/plain_calls.h"
#include "dispatch/unwrap.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kernel_id.h"
#include "propagate/propagator.h"
#include "schema/argument.h"
#include "schema/calls.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"

namespace {

std::atomic<std::int64_t> allocations{0};

}  // namespace

// Not inlined: the compiler would take new and free for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace shardlab;

using Body = std::function<void(RankContext&, const MeshLayout*)>;

// Runs `body` on all ranks of a mesh {x: ranks}, its caches its own.
void on_mesh(std::int64_t ranks, std::int64_t workers, const Body& body) {
  Arena arena;
  const MeshLayout* layout = arena.layout({{ranks}, {"x"}, {}});
  Propagator propagator(all_ops(), {});
  const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  WorldOptions options;
  options.ranks = ranks;
  options.schedule.workers = workers;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  run_world(options, [&](RankContext& rank) {
    rank.meshes->construct(layout);
    body(rank, layout);
  }).rethrow();
}

void on_first_rank(const std::function<void(const MeshLayout*)>& body) {
  on_mesh(2, 1, [&](RankContext& rank, const MeshLayout* layout) {
    if (rank.rank == 0) body(layout);
  });
}

DTensor placed(const MeshLayout* layout, const Dims& shape, const Placement& placement) {
  const DTensorSpec* spec =
      layout->arena().spec(layout, {placement}, contiguous_meta(shape, DType::kF32));
  const Coordinate coordinate{current_rank().rank};
  Tensor local = empty(*current_rank().device, local_meta(*spec, coordinate));
  std::fill_n(local.mutable_data<float>(), local.numel(), 1.0f);
  return DTensor(std::move(local), spec);
}

DTensor sharded(const MeshLayout* layout, const Dims& shape) {
  return placed(layout, shape, Placement::shard(0));
}

Arguments add_arguments(const MeshLayout* layout) {
  return {sharded(layout, {8}), sharded(layout, {8}), 1};
}

// Processor time of this thread: other programs disturb it least.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of one call, the least of several rounds.
template <typename Function>
double seconds_of(const Function& function) {
  constexpr int kCalls = 5000, kRounds = 15;
  double best = 1;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = now();
    for (int i = 0; i < kCalls; ++i) function();
    best = std::min(best, (now() - begin) / kCalls);
  }
  return best;
}

// A kernel on pieces as the dispatcher would call it.
class Kernel {
 public:
  Kernel(KernelId kernel, std::vector<LocalArg> locals, const Dims& output)
      : kernel_(kernel),
        locals_(std::move(locals)),
        outputs_{empty(*current_rank().device, output, DType::kF32)} {}

  void operator()() const {
    current_rank().device->run({.kernel = kernel_, .args = locals_, .outputs = outputs_});
  }

 private:
  KernelId kernel_;
  std::vector<LocalArg> locals_;
  std::vector<Tensor> outputs_;
};

Kernel add_kernel(const Arguments& args) {
  const Tensor& a = args[0].tensor().local();
  return {KernelId::kAdd, {a, args[1].tensor().local(), Scalar(1)}, a.shape()};
}

void kernel(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Kernel add = add_kernel(add_arguments(layout));
    for (auto _ : state) add();
  });
}
BENCHMARK(kernel);

template <typename Call>
void measure(benchmark::State& state, double floor, const Call& call) {
  call();
  const double whole = seconds_of(call);
  const std::int64_t before = allocations.load();
  std::int64_t calls = 0;
  for (auto _ : state) {
    call();
    ++calls;
  }
  state.counters["allocations"] =
      static_cast<double>(allocations.load() - before) / static_cast<double>(calls);
  state.counters["beyond_kernel_ns"] = 1e9 * (whole - floor);
}

void dispatch_add(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = add_arguments(layout);
    const OpRow& row = all_ops().at("aten::add.Tensor");
    measure(state, seconds_of(add_kernel(args)),
            [&] { benchmark::DoNotOptimize(dispatch(plain_calls(), row, args)); });
  });
}
BENCHMARK(dispatch_add);

void add_by_name(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = add_arguments(layout);
    measure(state, seconds_of(add_kernel(args)), [&] {
      benchmark::DoNotOptimize(recording_calls().one("aten::add.Tensor", {args[0], args[1]}));
    });
  });
}
BENCHMARK(add_by_name);

void add_by_function(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = add_arguments(layout);
    const DTensor x = args[0].tensor(), y = args[1].tensor();
    measure(state, seconds_of(add_kernel(args)), [&] { benchmark::DoNotOptimize(x + y); });
  });
}
BENCHMARK(add_by_function);

void dispatch_view(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = {sharded(layout, {8, 4}), Dims{8, 2, 2}};
    const OpRow& row = all_ops().at("aten::view");
    measure(state, 0, [&] { benchmark::DoNotOptimize(dispatch(plain_calls(), row, args)); });
  });
}
BENCHMARK(dispatch_view);

void dispatch_transpose(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = {sharded(layout, {8, 4}), 0, 1};
    const OpRow& row = all_ops().at("aten::transpose.int");
    measure(state, 0, [&] { benchmark::DoNotOptimize(dispatch(plain_calls(), row, args)); });
  });
}
BENCHMARK(dispatch_transpose);

void unwrap_call(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = add_arguments(layout);
    const OpRow& row = all_ops().at("aten::add.Tensor");
    for (auto _ : state) benchmark::DoNotOptimize(unwrap(row, args));
  });
}
BENCHMARK(unwrap_call);

void mm_and_gradients(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const DTensor x = sharded(layout, {8, 8});
    const DTensor w = placed(layout, {8, 8}, Placement::replicate());
    const DTensor seed = sharded(layout, {8, 8});
    require_grad(x);
    require_grad(w);
    const OpRow& row = all_ops().at("aten::mm");
    const auto turned = [](const Tensor& m) {
      return m.as_view({{m.size(1), m.size(0)}, {m.stride()[1], m.stride()[0]}, m.dtype()}, 0);
    };
    const Tensor& local = x.local();
    const Kernel products[] = {{KernelId::kMm, {local, w.local()}, {4, 8}},
                               {KernelId::kMm, {seed.local(), turned(w.local())}, {4, 8}},
                               {KernelId::kMm, {turned(local), seed.local()}, {8, 8}}};
    const double floor = seconds_of([&] {
      for (const Kernel& product : products) product();
    });
    measure(state, floor, [&] {
      const Results y = recording_calls().call(row, {x, w});
      benchmark::DoNotOptimize(gradients(y[0].tensor(), {x, w}, seed));
    });
  });
}
BENCHMARK(mm_and_gradients);

// Seconds from the start of the first rank to the end of the last.
double seconds_of_adds(std::int64_t workers, std::int64_t calls) {
  const auto clock = [] {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double seconds = 0;
  on_mesh(64, workers, [&](RankContext& rank, const MeshLayout* layout) {
    const Arguments args = {placed(layout, {512}, Placement::shard(0)),
                            placed(layout, {512}, Placement::shard(0)), 1};
    const OpRow& row = all_ops().at("aten::add.Tensor");
    dispatch(plain_calls(), row, args);
    rank.world->barrier();
    const double begin = clock();
    for (std::int64_t i = 0; i < calls; ++i)
      benchmark::DoNotOptimize(dispatch(plain_calls(), row, args));
    rank.world->barrier();
    if (rank.rank == 0) seconds = clock() - begin;
  });
  return seconds;
}

void ranks_at_once(benchmark::State& state) {
  constexpr std::int64_t kCalls = 2000;
  double one = 1e9, two = 1e9;
  for (auto _ : state) {
    one = std::min(one, seconds_of_adds(1, kCalls));
    two = std::min(two, seconds_of_adds(2, kCalls));
  }
  state.counters["ns_per_call"] = 1e9 * one / (64 * kCalls);
  state.counters["speed_up"] = one / two;
}
BENCHMARK(ranks_at_once)->Iterations(10)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
