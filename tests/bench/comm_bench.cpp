// comm_bench - collectives of the backend `threads`, scheduler pool (one OS thread), against the
// least memory traffic that could do the same, measured in this run:
//   all_reduce, reduce_scatter  read N * S bytes, write S bytes
//   all_gather, all_to_all      copy N * S bytes
// S: bytes that each of N ranks brings, f32. `of_floor` = time of that traffic / time of the
// collective. `own`: every rank also writes to its result, which copies a Buffer that it shares:
// the floor has a copy of the result for every rank but the last. A round without a clock comes
// first, since fresh memory costs a page fault every 4 KiB; later ones use what the first has
// freed. rendezvous: all ranks of the world meet once; `of_floor` against a minimal loop of fibers,
// `of_plain_floor` against the same loop that switches as Boost does. message: of two ranks. Times
// are processor time of the thread.
#include <benchmark/benchmark.h>

#include <vector>

#include "comm/process_group.h"
#include "tests/bench/floor.h"
#include "tests/bench/rendezvous_floor.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace {

using namespace shardlab;

enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

Tensor call(Collective collective, ProcessGroup& group, const Tensor& x, Lengths even,
            Lengths pieces) {
  switch (collective) {
    case Collective::kAllReduce:
      return group.all_reduce(x, ReduceOp::kSum);
    case Collective::kAllGather:
      return group.all_gather(x, 0, even);
    case Collective::kReduceScatter:
      return group.reduce_scatter(x, 0, pieces, ReduceOp::kSum);
    case Collective::kAllToAll:
      return group.all_to_all(x, 0, pieces, 0, pieces);
  }
  return {};
}

void run_collective(benchmark::State& state, Collective collective) {
  const std::int64_t bytes = state.range(0) << 20;
  const std::int64_t ranks = state.range(1);
  const bool own = state.range(2) != 0;
  const bool reduces =
      collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
  double floor = reduces ? floor_of_reduction(ranks, bytes) : floor_of_copy(ranks, bytes);
  if (own && collective == Collective::kAllReduce) floor += floor_of_copy(ranks - 1, bytes);
  if (own && collective == Collective::kAllGather) {
    floor += static_cast<double>(ranks - 1) * floor_of_copy(ranks, bytes);
  }
  const std::int64_t count = bytes / 4;
  const std::vector<std::int64_t> even(static_cast<std::size_t>(ranks), count);
  const std::vector<std::int64_t> pieces(static_cast<std::size_t>(ranks), count / ranks);
  const auto rounds = static_cast<std::int64_t>(state.max_iterations);
  while (state.KeepRunningBatch(rounds)) {
    double seconds = 0;
    on_ranks(ranks, [&](RankContext& rank) {
      ProcessGroup& group = *rank.world;
      const Tensor x = local_tensor({count}, DType::kF32,
                                    std::vector<double>(static_cast<std::size_t>(count), 1));
      double begin = 0;
      for (std::int64_t i = -1; i < rounds; ++i) {
        const Tensor y = call(collective, group, x, even, pieces);
        if (own) y.mutable_data<float>()[0] = 0;
        // All ranks hold their results before one result is freed, as in a program.
        group.barrier();
        if (i < 0) begin = thread_seconds();
      }
      if (rank.rank == 0) seconds = thread_seconds() - begin;
    });
    state.SetIterationTime(seconds);
    state.counters["of_floor"] = floor / (seconds / static_cast<double>(rounds));
  }
}

void rendezvous(benchmark::State& state) {
  const std::int64_t ranks = state.range(0);
  const double floor = floor_of_rendezvous(ranks, Switch::kBalanced);
  const double plain_floor = floor_of_rendezvous(ranks, Switch::kPlain);
  const auto rounds = static_cast<std::int64_t>(state.max_iterations);
  while (state.KeepRunningBatch(rounds)) {
    double seconds = 0;
    on_ranks(ranks, [&](RankContext& rank) {
      rank.world->barrier();
      const double begin = thread_seconds();
      for (std::int64_t i = 0; i < rounds; ++i) rank.world->barrier();
      if (rank.rank == 0) seconds = thread_seconds() - begin;
    });
    state.SetIterationTime(seconds);
    const double meeting = seconds / static_cast<double>(rounds);
    state.counters["of_floor"] = floor / meeting;
    state.counters["of_plain_floor"] = plain_floor / meeting;
  }
}

// From one of the ranks to another; `beyond_us`: more than a barrier of these two.
void message(benchmark::State& state) {
  const std::int64_t ranks = state.range(0);
  const auto rounds = static_cast<std::int64_t>(state.max_iterations);
  while (state.KeepRunningBatch(rounds)) {
    double meetings = 0, messages = 0;
    on_ranks(ranks, [&](RankContext& rank) {
      const auto pair = rank.world->split(rank.rank < 2 ? 0 : -1, rank.rank, "pair");
      if (pair == nullptr) return;
      const Tensor x = local_tensor({4}, DType::kF32, {1, 2, 3, 4});
      const auto send_or_receive = [&] {
        if (rank.rank == 0) return pair->send(x, 1, 0);
        return pair->recv(x.meta(), 0, 0);
      };
      pair->barrier();
      double begin = thread_seconds();
      for (std::int64_t i = 0; i < rounds; ++i) pair->barrier();
      if (rank.rank == 0) meetings = thread_seconds() - begin;
      begin = thread_seconds();
      for (std::int64_t i = 0; i < rounds; ++i) send_or_receive();
      if (rank.rank == 0) messages = thread_seconds() - begin;
    });
    state.SetIterationTime(messages);
    state.counters["beyond_us"] = (messages - meetings) / static_cast<double>(rounds) * 1e6;
  }
}

// A whole world: contexts, groups, stacks of its own, all ranks run an empty body.
void start_world(benchmark::State& state) {
  const std::int64_t ranks = state.range(0);
  for (auto _ : state) on_ranks(ranks, [](RankContext&) {});
  state.counters["ns_per_rank"] = benchmark::Counter(
      static_cast<double>(ranks) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"MiB", "ranks", "own"});
  for (const int mebibytes : {1, 16}) {
    for (const int ranks : {2, 4, 8}) {
      for (const int own : {0, 1}) bench->Args({mebibytes, ranks, own});
    }
  }
  bench->UseManualTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(run_collective, all_reduce, Collective::kAllReduce)->Apply(sizes);
BENCHMARK_CAPTURE(run_collective, all_gather, Collective::kAllGather)->Apply(sizes);
BENCHMARK_CAPTURE(run_collective, reduce_scatter, Collective::kReduceScatter)->Apply(sizes);
BENCHMARK_CAPTURE(run_collective, all_to_all, Collective::kAllToAll)->Apply(sizes);
BENCHMARK(rendezvous)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(message)->ArgName("ranks")->Arg(2)->Arg(64)->UseManualTime()->Unit(
    benchmark::kMicrosecond);
BENCHMARK(start_world)->ArgName("ranks")->Arg(8)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
