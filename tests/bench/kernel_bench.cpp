// kernel_bench - every kind of kernel compared with its floor, the least time in which the same
// work can be done. Kernel and floor take turns, and of each the least time of all rounds counts,
// processor time of one thread. `of_floor` = time of the floor / time of the kernel; `mark` is the
// least value it should reach, 0 where nothing is required.
//   product    the same product by Eigen, with the caches of this machine; for bf16 one of f32
//   memory     the same bytes read and written by plain vector loads and stores; arrays have 128
//              MiB in every dtype, so that they come from memory and not from the last cache.
//              Functions of bf16, and tanh and gelu of f64, compute longer with AVX2 than memory
//              takes for their bytes: they stay below the mark (0.2 to 0.5)
//   loop       the same data in the standard library or a bare loop
// Small tensors: `beyond_ns`, the kernel less a bare loop over the elements; the mark is 150.
// `--seconds=S`: for each row, 0.3 when it is left out. At the end: the ten slowest rows.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "propagate/propagator.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"
#include "tests/bench/kernel_cases.h"

namespace {

using namespace shardlab;

/// A share of the floor's speed; for small tensors nanoseconds; 0: nothing is required.
double mark_of(const KernelCase& one) {
  switch (one.floor) {
    case Floor::kProduct:
      return 0.85;
    case Floor::kMemory:
      return 0.6;
    case Floor::kRows:
      return 0.35;
    case Floor::kHalfRows:
      return 0.15;
    case Floor::kLoop:
      return 0;
    case Floor::kSmallLoop:
      return 150;
  }
  return 0;
}

/// Runs `body` on the only rank of a world, on a CPU device.
void on_one_rank(const std::function<void()>& body) {
  Propagator propagator(all_ops(), {});
  const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  WorldOptions options;
  options.ranks = 1;
  options.schedule.workers = 1;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  run_world(options, [&](RankContext&) { body(); }).rethrow();
}

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const TimedWork& work, int calls) {
  const double begin = now();
  for (int i = 0; i < calls; ++i) work();
  return (now() - begin) / calls;
}

struct Seconds {
  double kernel = 1e9;
  double floor = 1e9;
};

// A round of many calls where one is too short for the clock.
Seconds measured(const KernelPair& pair, double budget) {
  constexpr double kShortest = 20e-6;
  pair.kernel();
  pair.floor();
  int calls = 1;
  while (calls < 1 << 16 && seconds_of(pair.kernel, calls) * calls < kShortest) calls *= 2;
  Seconds best;
  const double begin = now();
  for (int round = 0; round < 5 || now() - begin < budget; ++round) {
    best.kernel = std::min(best.kernel, seconds_of(pair.kernel, calls));
    best.floor = std::min(best.floor, seconds_of(pair.floor, calls));
  }
  return best;
}

struct Row {
  std::string name;
  double of_floor;
};

void run_case(benchmark::State& state, const KernelCase& one, double budget,
              std::vector<Row>& rows) {
  Seconds found;
  on_one_rank([&] { found = measured(one.make(), budget); });
  for (auto _ : state) state.SetIterationTime(found.kernel);
  state.counters["floor_us"] = 1e6 * found.floor;
  state.counters["of_floor"] = found.floor / found.kernel;
  if (one.floor == Floor::kSmallLoop) {
    state.counters["beyond_ns"] = 1e9 * (found.kernel - found.floor);
  } else {
    rows.push_back({one.name, found.floor / found.kernel});
  }
  state.counters["mark"] = mark_of(one);
}

double taken_seconds(int& count, char** arguments) {
  constexpr std::string_view kOption = "--seconds=";
  double seconds = 0.3;
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument.starts_with(kOption)) {
      seconds = std::stod(std::string(argument.substr(kOption.size())));
    } else {
      arguments[kept++] = arguments[i];
    }
  }
  count = kept;
  return seconds;
}

}  // namespace

int main(int count, char** arguments) {
  const double budget = taken_seconds(count, arguments);
  benchmark::Initialize(&count, arguments);
  std::vector<Row> rows;
  for (const KernelCase& one : kernel_cases()) {
    benchmark::RegisterBenchmark(
        one.name.c_str(), [&, one](benchmark::State& state) { run_case(state, one, budget, rows); })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  std::ranges::sort(rows, {}, &Row::of_floor);
  fmt::print("\nslowest beside their floor\n");
  for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 10); ++i) {
    fmt::print("  {:5.2f}  {}\n", rows[i].of_floor, rows[i].name);
  }
}
