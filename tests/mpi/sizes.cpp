// Ranks whose collectives differ, in one job: sizes on both sides of the length from which Open MPI
// writes a message behind shorter memory, other collectives, reductions, dtypes and dims, also
// without comparing calls. Every run fails by name, and the next one is sound.
#include <shardlab/shardlab.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using namespace shardlab;

namespace {

using Body = std::function<void(const RankContext& rank, std::int64_t size, bool odd)>;

struct Case {
  const char* name;
  Body body;
};

CollectInto into_list(CollectiveKind kind, std::int64_t size, const RankContext& rank) {
  CollectInto what{.kind = kind};
  const bool root = rank.rank == 0;
  auto& many = kind == CollectiveKind::kGather ? what.outputs : what.inputs;
  auto& one = kind == CollectiveKind::kGather ? what.inputs : what.outputs;
  one = {ones({size})};
  for (std::int64_t i = 0; i < rank.world_size && root; ++i) many.push_back(zeros({size}));
  return what;
}

const std::vector<Case> kSizes = {
    {"all_reduce",
     [](auto&, auto n, bool) { all_reduce(ones({n}), ReduceOp::kSum, world_group()); }},
    {"all_gather", [](auto&, auto n, bool) { all_gather(ones({n}), 0, world_group()); }},
    {"reduce_scatter",
     [](auto& rank, auto n, bool) {
       reduce_scatter(ones({n * rank.world_size}), 0, ReduceOp::kSum, world_group());
     }},
    {"all_to_all", [](auto& rank, auto n,
                      bool) { all_to_all(ones({n * rank.world_size}), 0, 0, world_group()); }},
    {"broadcast", [](auto&, auto n, bool) { broadcast(ones({n}), 0, world_group()); }},
    {"gather",
     [](auto& rank, auto n, bool) {
       collect_into(into_list(CollectiveKind::kGather, n, rank), world_group());
     }},
    {"scatter",
     [](auto& rank, auto n, bool) {
       collect_into(into_list(CollectiveKind::kScatter, n, rank), world_group());
     }},
    {"send",
     [](auto& rank, auto n, bool) {
       // The odd rank is the last; the first one sends to it.
       const std::int64_t last = rank.world_size - 1;
       if (rank.rank == 0) send(ones({n}), last, world_group());
       if (rank.rank == last) recv(zeros({n}), 0, world_group());
     }},
};

const std::vector<Case> kCalls = {
    {"another collective",
     [](auto& rank, auto n, bool odd) {
       if (odd) all_gather(ones({n / rank.world_size}), 0, world_group());
       if (!odd) all_reduce(ones({n}), ReduceOp::kSum, world_group());
     }},
    {"another collective of equal messages",
     [](auto&, auto n, bool odd) {
       if (odd) all_gather(ones({n}), 0, world_group());
       if (!odd) all_reduce(ones({n}), ReduceOp::kSum, world_group());
     }},
    {"another reduction",
     [](auto&, auto n, bool odd) {
       all_reduce(ones({n}), odd ? ReduceOp::kMax : ReduceOp::kSum, world_group());
     }},
    {"another dtype of equal size",
     [](auto&, auto n, bool odd) {
       all_reduce(to(ones({n}), odd ? DType::kI32 : DType::kF32), ReduceOp::kSum, world_group());
     }},
    {"another dim",
     [](auto&, auto n, bool odd) {
       all_gather(ones({n, n}), odd ? 1 : 0, world_group());
     }},
};

int failures = 0;

void expect(std::int64_t rank, bool holds, const std::string& what) {
  if (holds) return;
  failures += 1;
  std::printf("rank %d: %s\n", static_cast<int>(rank), what.c_str());
}

void run(const Case& one, std::int64_t size, std::int64_t odd_size, CollectiveChecks checks) {
  WorldOptions options{.ranks = 4, .backend = "mpi"};
  options.checks = checks;
  std::int64_t me = 0, last = 0;
  const WorldResult result = try_spmd(options, [&](RankContext& rank) {
    me = rank.rank;
    last = rank.world_size - 1;
    const bool odd = rank.rank == last;
    one.body(rank, odd ? odd_size : size, odd);
    barrier(world_group());
  });
  const bool checked = checks == CollectiveChecks::kOn;
  const std::string name =
      fmt::format("{} {} {} {}", one.name, size, odd_size, checked ? "checked" : "not checked");
  expect(me, !result.ok(), name + ": nothing is told");
  if (!result.ok()) {
    const std::string text = result.merged().text();
    const bool names = text.find(fmt::format("rank {}", last)) != std::string::npos ||
                       text.find(fmt::format("0-{}", last)) != std::string::npos;
    const bool says =
        text.find("differ") != std::string::npos || text.find("mismatch") != std::string::npos;
    expect(me, names && says, name + ": " + text);
  }
  options.checks = CollectiveChecks::kOff;
  double sum = 0;
  const WorldResult next = try_spmd(options, [&](RankContext&) {
    sum = all_reduce(ones({1}), ReduceOp::kSum, world_group()).item().to_double();
  });
  expect(me, next.ok() && sum == 4, name + ": the next run fails");
}

}  // namespace

int main() {
  for (const CollectiveChecks checks : {CollectiveChecks::kOff, CollectiveChecks::kOn}) {
    for (const Case& one : kSizes) {
      for (const auto& [size, odd] :
           std::vector<std::pair<std::int64_t, std::int64_t>>{{300, 400},
                                                              {300, 1200},
                                                              {1000, 1500},
                                                              {1900, 2000},
                                                              {10'000, 20'000},
                                                              {20'000, 10'000},
                                                              {100'000, 100'001},
                                                              {0, 1000},
                                                              {1000, 0}}) {
        run(one, size, odd, checks);
      }
    }
    for (const Case& one : kCalls) {
      for (const std::int64_t size : {100, 3000}) {
        if (std::string(one.name) == "another dim" && size > 100) continue;
        run(one, size, size, checks);
      }
    }
  }
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
