#include "backends/threads/crew.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "sim/schedule/schedulers.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;
using namespace shardlab::threads;

namespace {

WorldOptions world_of(std::int64_t ranks, SchedulerKind kind, std::int64_t workers) {
  WorldOptions options = plain_world(ranks, kind);
  options.schedule.workers = workers;
  return options;
}

// Rank 0 owns the work, the others wait for it and help.
void with_helpers(Scheduler& scheduler, const std::function<void(Crew&)>& work) {
  constexpr std::int64_t kRanks = 4;
  std::vector<std::int64_t> ranks(kRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  Crew crew(scheduler, ranks);
  std::atomic<bool> over{false};
  scheduler.run(kRanks, [&](std::int64_t rank) {
    if (rank == 0) {
      work(crew);
      over = true;
      scheduler.unpark_all(ranks);
    }
    while (!over) {
      crew.help();
      scheduler.park();
    }
  });
}

// Results of all ranks of a world for one reduction and one exchange of 4 MB in all, as bytes.
std::vector<float> large_results(const WorldOptions& world) {
  std::vector<float> results;
  on_ranks(world, [&](RankContext& rank) {
    const std::int64_t rows = 7 * rank.world_size, columns = 30'001;
    std::vector<double> numbers(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::sin(static_cast<double>(i) + 0.37 * static_cast<double>(rank.rank));
    }
    const Tensor x = local_tensor({rows, columns}, DType::kF32, numbers);
    ProcessGroup& group = *rank.world;
    const std::vector<std::int64_t> pieces(static_cast<std::size_t>(rank.world_size), 7);
    const std::vector<std::int64_t> whole(static_cast<std::size_t>(rank.world_size), columns);
    std::vector<std::int64_t> uneven(static_cast<std::size_t>(rank.world_size), 1);
    uneven.back() = columns - rank.world_size + 1;
    std::vector<Tensor> outputs = {
        group.all_reduce(x, ReduceOp::kSum), group.reduce_scatter(x, 0, pieces, ReduceOp::kAvg),
        group.all_gather(x, 1, whole), group.all_to_all(x, 0, pieces, 1, whole)};
    if (rank.rank != rank.world_size - 1) return;
    for (const Tensor& output : outputs) {
      results.insert(results.end(), output.data<float>(), output.data<float>() + output.numel());
    }
  });
  return results;
}

}  // namespace

TEST_CASE("every piece is run once, whoever helps") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kThreads}) {
    const auto scheduler = make_scheduler({.kind = kind, .workers = 3});
    std::vector<std::atomic<int>> runs(1000);
    with_helpers(*scheduler, [&](Crew& crew) {
      for (int round = 0; round < 20; ++round) {
        crew.run(runs.size(), [&](std::size_t i) { ++runs[i]; });
        CHECK(runs[999].load() == round + 1);  // done when run() returns
      }
    });
    for (const auto& count : runs) CHECK(count.load() == 20);
  }
}

TEST_CASE("an exception of a piece is thrown where the work was shared out") {
  const auto scheduler = make_scheduler({.kind = SchedulerKind::kThreads});
  std::string caught;
  with_helpers(*scheduler, [&](Crew& crew) {
    try {
      crew.run(64, [](std::size_t) { throw std::runtime_error("no such piece"); });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
  });
  CHECK(caught == "no such piece");
}

TEST_CASE("work is shared out on several threads only") {
  for (const std::int64_t workers : {1, 2}) {
    const auto scheduler = make_scheduler({.kind = SchedulerKind::kPool, .workers = workers});
    with_helpers(*scheduler, [&](Crew& crew) {
      CHECK_FALSE(crew.pays(1000));
      if (workers == 1) CHECK_FALSE(crew.pays(std::int64_t{1} << 30));
    });
  }
}

TEST_CASE("K-21 large collectives give the same bits however many threads work on them") {
  const std::vector<float> alone = large_results(world_of(3, SchedulerKind::kPool, 1));
  CHECK(alone.size() > 1'000'000);
  CHECK(large_results(world_of(3, SchedulerKind::kPool, 3)) == alone);
  CHECK(large_results(world_of(3, SchedulerKind::kThreads, 1)) == alone);
}
