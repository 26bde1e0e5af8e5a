// dispatch_bench - what one op costs besides its kernel, on one rank of a mesh of two, f32[8@x]:
//   kernel           the local kernel alone, its output at hand: the floor of what follows
//   dispatch         dispatch() of a call whose decision is known; `beyond_kernel_ns` and
//   `allocations`
//                    (operator new and malloc'd buffers are counted apart) are per call
//   by_name          the same through Calls::one: look-up by name, arguments bound, tape asked
//   view             transpose of a handle, no kernel
//   unwrap_call      a call's OpSchema and slots alone
// What a decision costs: propagate_bench.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>

#include "autograd/autograd.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/dispatcher.h"
#include "dispatch/unwrap.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kernel_id.h"
#include "ops/register.h"
#include "propagate/propagator.h"
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

const OpRegistry& registry() {
  static const OpRegistry ops = [] {
    OpRegistry made;
    register_all_ops(made);
    return made;
  }();
  return ops;
}

// Runs `body` on rank 0 of a mesh {x: 2}, its caches its own.
void on_first_rank(const std::function<void(const MeshLayout*)>& body) {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2}, {"x"}, {}});
  Propagator propagator(registry(), {});
  const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  WorldOptions options;
  options.ranks = 2;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  run_world(options, [&](RankContext& rank) {
    rank.meshes->construct(layout);
    if (rank.rank == 0) body(layout);
  }).rethrow();
}

DTensor sharded(const MeshLayout* layout, const Dims& shape) {
  const DTensorSpec* spec =
      layout->arena().spec(layout, {Placement::shard(0)}, contiguous_meta(shape, DType::kF32));
  const Coordinate coordinate{0};
  Tensor local = empty(*current_rank().device, local_meta(*spec, coordinate));
  std::fill_n(local.mutable_data<float>(), local.numel(), 1.0f);
  return DTensor(std::move(local), spec);
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

// The kernel of add on two pieces as the dispatcher would call it.
class AddKernel {
 public:
  explicit AddKernel(const Arguments& args)
      : locals_{args[0].tensor().local(), args[1].tensor().local(), Scalar(1)},
        outputs_{empty(*current_rank().device, args[0].tensor().local().meta())} {}

  void operator()() const {
    current_rank().device->run({.kernel = KernelId::kAdd, .args = locals_, .outputs = outputs_});
  }

 private:
  std::vector<LocalArg> locals_;
  std::vector<Tensor> outputs_;
};

void kernel(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const AddKernel add(add_arguments(layout));
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
    const OpRow& row = registry().at("aten::add.Tensor");
    measure(state, seconds_of(AddKernel(args)),
            [&] { benchmark::DoNotOptimize(dispatch(row, args)); });
  });
}
BENCHMARK(dispatch_add);

void add_by_name(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = add_arguments(layout);
    measure(state, seconds_of(AddKernel(args)), [&] {
      benchmark::DoNotOptimize(recording_calls().one("aten::add.Tensor", {args[0], args[1]}));
    });
  });
}
BENCHMARK(add_by_name);

void dispatch_view(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = {sharded(layout, {8, 4}), 0, 1};
    const OpRow& row = registry().at("aten::transpose.int");
    measure(state, 0, [&] { benchmark::DoNotOptimize(dispatch(row, args)); });
  });
}
BENCHMARK(dispatch_view);

void unwrap_call(benchmark::State& state) {
  on_first_rank([&](const MeshLayout* layout) {
    const Arguments args = add_arguments(layout);
    const OpRow& row = registry().at("aten::add.Tensor");
    for (auto _ : state) benchmark::DoNotOptimize(unwrap(row, args));
  });
}
BENCHMARK(unwrap_call);

}  // namespace

BENCHMARK_MAIN();
