#include "backends/threads/outlook.h"

#include <doctest/doctest.h>

#include <vector>

#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "comm/verdict.h"
#include "mesh/spec.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;
using threads::OpenRound;

namespace {

// Groups differ by address only.
constexpr const char *kA = "a", *kB = "b", *kC = "c";

using Flags = std::vector<bool>;

// The same seen twice.
Flags stuck(const std::vector<OpenRound>& rounds, const Flags& ended) {
  return threads::stuck_ranks(rounds, rounds, ended);
}

}  // namespace

TEST_CASE("a rank that waits for running ones can advance; for one that has ended it cannot") {
  const std::vector<OpenRound> rounds = {{kA, 4, {0, 1}, {2}}};
  CHECK(stuck(rounds, {false, false, false}) == Flags{false, false, false});
  CHECK(stuck(rounds, {false, false, true}) == Flags{true, true, false});
}

TEST_CASE("B-6 a cycle is stuck, and whoever waits for it, while others go on") {
  // 0 and 1 wait for each other in two groups, 2 for 1, 3 for the running rank 4.
  const std::vector<OpenRound> rounds = {
      {kA, 0, {0}, {1}}, {kB, 0, {1}, {0}}, {kC, 0, {2}, {1}}, {kC, 7, {3}, {4}}};
  CHECK(stuck(rounds, Flags(5, false)) == Flags{true, true, true, false, false});
}

TEST_CASE("a chain that ends at a running rank is not stuck") {
  const std::vector<OpenRound> rounds = {{kA, 0, {0}, {1}}, {kB, 0, {1}, {2}}, {kC, 0, {2}, {3}}};
  CHECK(stuck(rounds, Flags(4, false)) == Flags{false, false, false, false});
}

TEST_CASE("a rank that moved between the two looks is not waiting") {
  // At no time did both wait: 0 had left its round before 1 came to the other one.
  const std::vector<OpenRound> before = {{kA, 0, {0}, {1}}};
  const std::vector<OpenRound> after = {{kB, 0, {1}, {0}}};
  CHECK(threads::stuck_ranks(before, after, {false, false}) == Flags{false, false});
}

TEST_CASE("B-6 two ranks that wait for each other are told while others go on for long") {
  // Ranks 0 and 1 enter two groups in opposite order; 2 and 3 would meet 100,000 times.
  const MeshLayout* pairs = process_arena().layout({.shape = {2, 2}, .names = {"pair", "x"}});
  const MeshLayout* row = process_arena().layout({.shape = {2}, .names = {"row"}});
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kSeeded}) {
    std::vector<int> rounds(4, 0);
    const WorldResult result = run_world(plain_world(4, kind), [&](RankContext& rank) {
      ProcessGroup& x = rank.meshes->construct(pairs).group(1);
      const DeviceMesh& other = rank.meshes->construct(row);
      if (rank.rank < 2) {
        ProcessGroup& first = rank.rank == 0 ? x : other.group(0);
        first.barrier();
      } else {
        for (int& i = rounds[static_cast<std::size_t>(rank.rank)]; i < 100'000; ++i) x.barrier();
      }
    });
    REQUIRE(result.verdict.has_value());
    CHECK(result.verdict->kind == VerdictKind::kDeadlock);
    CHECK(summary(*result.verdict) == "deadlock: ranks 0,1 wait for each other");
    CHECK(text(*result.verdict) ==
          "rank 0: in barrier() on group x, call 0, waiting for rank 1\n"
          "rank 1: in barrier() on group row, call 0, waiting for rank 0\n"
          "ranks 2,3: running");
    CHECK(rounds[2] < 1'000);
  }
}
