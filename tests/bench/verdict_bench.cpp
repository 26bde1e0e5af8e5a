// verdict_bench - from the moment a failure is inevitable until the last rank has been told. The
// moment: when the last rank that the failure needs enters its call, ends or throws. One row per
// broken program and number of ranks, one column per scheduler; microseconds, median of 21 runs.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "comm/process_group.h"
#include "sim/world/world.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace {

using namespace shardlab;
using Clock = std::chrono::steady_clock;

Tensor ones(std::int64_t count) {
  return local_tensor({count}, DType::kF32,
                      std::vector<double>(static_cast<std::size_t>(count), 1));
}

struct Program {
  const char* name;
  std::function<void(RankContext&)> body;
};

const Program kPrograms[] = {
    {"mismatch: another shape on the last rank",
     [](RankContext& rank) {
       const bool odd = rank.rank == rank.world_size - 1;
       rank.world->all_reduce(ones(odd ? 3 : 2), ReduceOp::kSum);
     }},
    {"mismatch: a barrier among all_reduces",
     [](RankContext& rank) {
       if (rank.rank == 1) rank.world->barrier();
       rank.world->all_reduce(ones(2), ReduceOp::kSum);
     }},
    {"deadlock: the last rank never comes",
     [](RankContext& rank) {
       if (rank.rank != rank.world_size - 1) rank.world->barrier();
     }},
    {"deadlock: work that one rank issues and nobody waits for",
     [](RankContext& rank) {
       if (rank.rank == 0) rank.world->all_reduce(ones(2), ReduceOp::kSum, Issue::kAsync);
     }},
    {"death: the last rank throws",
     [](RankContext& rank) {
       if (rank.rank == rank.world_size - 1) fail(ErrorKind::kAssert, "gone");
       rank.world->barrier();
     }},
};

// Ranks begin together; what they do until the failure is theirs takes next to nothing, so that
// the last beginning is the moment. Ranks that learn of it after their body are told by the end of
// the run.
double microseconds(const Program& program, SchedulerKind kind, std::int64_t ranks) {
  std::vector<Clock::time_point> begun(static_cast<std::size_t>(ranks));
  std::vector<Clock::time_point> told(begun.size());
  std::atomic<bool> heard{false};
  run_world(plain_world(ranks, kind), [&](RankContext& rank) {
    const auto index = static_cast<std::size_t>(rank.rank);
    rank.world->barrier();
    begun[index] = Clock::now();
    try {
      program.body(rank);
    } catch (const Error&) {
      told[index] = Clock::now();
      heard = true;
      throw;
    }
  });
  if (!heard) told[0] = Clock::now();
  const auto span = *std::ranges::max_element(told) - *std::ranges::max_element(begun);
  return std::chrono::duration<double, std::micro>(span).count();
}

double median_of_runs(const Program& program, SchedulerKind kind, std::int64_t ranks) {
  std::vector<double> runs;
  for (int run = 0; run < 21; ++run) runs.push_back(microseconds(program, kind, ranks));
  std::ranges::sort(runs);
  return runs[runs.size() / 2];
}

}  // namespace

int main() {
  std::fputs(fmt::format("{:<58} {:>6}", "time to verdict, us", "ranks").c_str(), stdout);
  for (const SchedulerKind kind : kSchedulerKinds) {
    std::fputs(fmt::format(" {:>10}", to_string(kind)).c_str(), stdout);
  }
  std::puts("");
  for (const Program& program : kPrograms) {
    for (const std::int64_t ranks : {4, 64, 256}) {
      std::fputs(fmt::format("{:<58} {:>6}", program.name, ranks).c_str(), stdout);
      for (const SchedulerKind kind : kSchedulerKinds) {
        std::fputs(fmt::format(" {:>10.1f}", median_of_runs(program, kind, ranks)).c_str(), stdout);
      }
      std::puts("");
    }
  }
}
