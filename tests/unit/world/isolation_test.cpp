// Nothing that one rank does to its context reaches another (B-3, D-7): 64 ranks on each scheduler.
#include <doctest/doctest.h>

#include <atomic>

#include "kernels/cpu_kernels.h"
#include "sim/world/spmd.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab {
namespace {

constexpr std::int64_t kRanks = 64;

void isolated(SchedulerOptions schedule) {
  WorldOptions options;
  options.ranks = kRanks;
  options.schedule = schedule;
  options.seed = 3;
  std::atomic<int> refused = 0;
  spmd(std::move(options), [&](RankContext& rank) {
    // A default device of its own, which new tensors are made on.
    const std::unique_ptr<Device> mine = make_cpu_device(cpu_kernel_table());
    Device* const before = rank.device;
    rank.device = mine.get();
    const MeshLayout* mesh = init_mesh({{"dp", kRanks}});
    const DTensor x = distribute_tensor(zeros({kRanks + 1}), mesh, "dp=S(0)");
    const bool odd = rank.rank % 2 == 1;
    const bool watched = rank.rank % 3 == 0;
    if (odd) rank.mixed = MixedTensors::kReplicate;
    if (rank.rank % 5 == 0) rank.implicit = ImplicitRedistribution::kForbid;
    rank.random = {static_cast<std::uint64_t>(rank.rank), 0};
    std::optional<test::Seen> seen;
    if (watched) seen.emplace();
    for (int round = 0; round < 3; ++round) {
      // Every rank gives the others a turn between its own steps.
      rank.world->barrier();
      try {
        add(x, tensor({static_cast<double>(rank.rank), 0}, {2}));
      } catch (const Error&) {
        ++refused;
      }
      rank.world->barrier();
      rand({static_cast<std::int64_t>(rank.rank % 7)});
      CHECK(zeros({2}).local().device() == mine.get());
    }
    rank.world->barrier();
    CHECK(rank.mixed == (odd ? MixedTensors::kReplicate : MixedTensors::kRefuse));
    CHECK((rank.implicit == ImplicitRedistribution::kForbid) == (rank.rank % 5 == 0));
    CHECK(rank.random.seed == static_cast<std::uint64_t>(rank.rank));
    CHECK(rank.random.offset == static_cast<std::uint64_t>(3 * (rank.rank % 7)));
    CHECK(rank.device == mine.get());
    CHECK((rank.observer != nullptr) == watched);
    CHECK(((rank.mode & kModeObserve) != 0) == watched);
    CHECK(&current_rank() == &rank);
    rank.device = before;
  });
  CHECK(refused == 3 * kRanks);
}

TEST_CASE("B-3 D-7 pool, one worker: 64 ranks keep flag, random state, observer and device apart") {
  isolated({.kind = SchedulerKind::kPool, .workers = 1});
}
TEST_CASE("B-3 D-7 pool, three workers: 64 ranks keep flag, random state, observer, device apart") {
  isolated({.kind = SchedulerKind::kPool, .workers = 3});
}
TEST_CASE("B-3 D-7 threads: 64 ranks keep flag, random state, observer and device to themselves") {
  isolated({.kind = SchedulerKind::kThreads});
}
TEST_CASE("B-3 D-7 seeded: 64 ranks keep flag, random state, observer and device to themselves") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    isolated({.kind = SchedulerKind::kSeeded, .seed = seed});
  }
}

}  // namespace
}  // namespace shardlab
