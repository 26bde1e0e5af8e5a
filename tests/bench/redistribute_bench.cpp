// redistribute_bench - redistributions of 16 MiB in total on 8 ranks, plan cached, scheduler pool
// (one OS thread), against the least memory traffic that could do the same, measured in this run:
//   S(0) -> R, S(0) -> S(1)  copy what all ranks hold once
//   P -> R, P -> S(0)        read what all ranks hold, write one rank's
// `of_floor` = time of that traffic / time of the redistribution, processor time of the thread. The
// goal is 0.6.
#include <benchmark/benchmark.h>

#include "tests/bench/floor.h"
#include "tests/unit/redistribute/on_mesh.h"

namespace {

using namespace shardlab;

constexpr std::int64_t kRanks = 8, kTotal = std::int64_t{16} << 20;

void move(benchmark::State& state, const char* from, const char* to) {
  const bool reduces = from[0] == 'P';
  // Every rank holds 2 MiB: a piece of 16 MiB, or a term of 2 MiB.
  const std::int64_t rows = (reduces ? kTotal / kRanks : kTotal) / 4 / 1024;
  const double floor = reduces ? floor_of_reduction(kRanks, kTotal / kRanks)
                               : floor_of_copy(kRanks, kTotal / kRanks);
  test::OnMesh mesh({kRanks});
  const DTensorSpec* source = mesh.spec(from, {rows, 1024});
  const DTensorSpec* target = mesh.spec(to, {rows, 1024});
  const auto rounds = static_cast<std::int64_t>(state.max_iterations);
  while (state.KeepRunningBatch(rounds)) {
    double seconds = 0;
    mesh.run([&](RankContext& rank) {
      const Coordinate coordinate{rank.rank};
      const Dims shape = local_shape(*source, coordinate);
      const Tensor x =
          test::tensor(shape, std::vector<double>(static_cast<std::size_t>(product(shape)), 1));
      ProcessGroup& world = *rank.world;
      world.barrier();
      const double begin = thread_seconds();
      for (std::int64_t i = 0; i < rounds; ++i) {
        const Tensor y = redistribute_local(x, source, target);
        world.barrier();  // all ranks hold results before one is freed, as in a program
      }
      if (rank.rank == 0) seconds = thread_seconds() - begin;
    });
    state.SetIterationTime(seconds);
    state.counters["of_floor"] = floor / (seconds / static_cast<double>(rounds));
  }
}

BENCHMARK_CAPTURE(move, S0_to_R, "S(0)", "R")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(move, S0_to_S1, "S(0)", "S(1)")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(move, P_to_R, "P", "R")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(move, P_to_S0, "P", "S(0)")->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
