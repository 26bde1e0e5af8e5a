// Broken programs that a scenario cannot write: the verdicts of every scheduler, word by word.
// Those that a scenario can write are in tests/verdicts.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "comm/verdict.h"
#include "mesh/spec.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

using Lengths64 = std::vector<std::int64_t>;

Tensor ones(const Dims& shape, DType dtype = DType::kF32) {
  return local_tensor(shape, dtype,
                      std::vector<double>(static_cast<std::size_t>(product(shape)), 1));
}

struct Row {
  const char* what;
  std::int64_t ranks;
  std::function<void(RankContext&, ProcessGroup& world)> body;
  const char* expected;  ///< summary, then where each rank waited; or "failed ranks: cause"
};

// Summary and wait-for graph, or the failing ranks and their errors.
std::string told(const WorldResult& result) {
  if (!result.verdict) return "fine";
  if (result.verdict->kind != VerdictKind::kRankFailed) {
    return summary(*result.verdict) + "\n" + text(*result.verdict);
  }
  const Error error = result.merged();
  const std::string* others = error.find("others");
  return fmt::format("{}: {}{}", *error.find("failed"), error.summary(),
                     others == nullptr ? "" : "\n" + *others);
}

void check(const Row& row) {
  CAPTURE(row.what);
  const auto run = [&](SchedulerKind kind, std::uint64_t seed) {
    WorldOptions options = plain_world(row.ranks, kind);
    options.schedule.seed = seed;
    const WorldResult result =
        run_world(options, [&](RankContext& rank) { row.body(rank, *rank.world); });
    CHECK_FALSE(result.ok());
    return told(result);
  };
  CHECK(run(SchedulerKind::kPool, 0) == row.expected);
  CHECK(run(SchedulerKind::kThreads, 0) == row.expected);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CHECK(run(SchedulerKind::kSeeded, seed) == row.expected);
  }
}

void permute_around(RankContext& rank, ProcessGroup& world, std::int64_t step, const Dims& shape) {
  const std::int64_t n = world.size();
  const Tensor x = ones(shape);
  world.permute(x, (rank.rank + step) % n, (rank.rank + n - 1) % n, x.meta());
}

}  // namespace

TEST_CASE("B-5 partners of a permute: a cycle that does not close, other shapes, nobody sends") {
  const Row rows[] = {
      {"rank 1 sends too far", 4,
       [](RankContext& rank, ProcessGroup& world) {
         permute_around(rank, world, rank.rank == 1 ? 2 : 1, {2});
       },
       "mismatch: the ranks of group world entered permute with parts that do not fit together "
       "(rank 1)\n"
       "rank 0: in permute(f32[2], to 1, from 3, receives f32[2]) on group world, call 0\n"
       "rank 1: in permute(f32[2], to 3, from 0, receives f32[2]) on group world, call 0\n"
       "rank 2: in permute(f32[2], to 3, from 1, receives f32[2]) on group world, call 0\n"
       "rank 3: in permute(f32[2], to 0, from 2, receives f32[2]) on group world, call 0"},
      {"rank 2 has another shape", 4,
       [](RankContext& rank, ProcessGroup& world) {
         permute_around(rank, world, 1, {rank.rank == 2 ? 3 : 2});
       },
       "mismatch: the ranks of group world entered permute with parts that do not fit together "
       "(rank 2)\n"
       "rank 0: in permute(f32[2], to 1, from 3, receives f32[2]) on group world, call 0\n"
       "rank 1: in permute(f32[2], to 2, from 0, receives f32[2]) on group world, call 0\n"
       "rank 2: in permute(f32[3], to 3, from 1, receives f32[3]) on group world, call 0\n"
       "rank 3: in permute(f32[2], to 0, from 2, receives f32[2]) on group world, call 0"},
      {"rank 2 stays out of the cycle of three", 4,
       [](RankContext& rank, ProcessGroup& world) {
         if (rank.rank != 2) permute_around(rank, world, 1, {2});
       },
       "deadlock: no rank can advance, rank 2 missing\n"
       "rank 0: in permute(f32[2], to 1, from 3, receives f32[2]) on group world, call 0, waiting "
       "for rank 2\n"
       "rank 1: in permute(f32[2], to 2, from 0, receives f32[2]) on group world, call 0, waiting "
       "for rank 2\n"
       "rank 2: ended\n"
       "rank 3: in permute(f32[2], to 0, from 2, receives f32[2]) on group world, call 0, waiting "
       "for rank 2"},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("B-5 batches, scatters and gathers that do not fit") {
  const Row rows[] = {
      {"a send that nobody receives", 2,
       [](RankContext& rank, ProcessGroup& world) {
         std::vector<SendRecv> parts(1);
         parts[0].peer = 1 - rank.rank;
         if (rank.rank == 0) {
           parts[0].send = ones({2});
         } else {
           parts.clear();
         }
         world.communicator().batch(parts);
       },
       "mismatch: the ranks of group world entered batch with parts that do not fit together "
       "(ranks 0,1)\n"
       "ranks 0,1: in batch() on group world, call 0"},
      {"rank 2 scatters from another source", 3,
       [](RankContext& rank, ProcessGroup& world) {
         const Tensor x = ones({3});
         world.communicator().scatter(x, rank.rank == 2 ? 1 : 0, 0, Lengths64{1, 1, 1}, x.meta());
       },
       "mismatch: the ranks of group world entered scatter with different sources (rank 2)\n"
       "ranks 0,1: in scatter(f32[3], dim 0, lengths 1,1,1, source 0) on group world, call 0\n"
       "rank 2: in scatter(f32[3], dim 0, lengths 1,1,1, source 1) on group world, call 0"},
      {"rank 0 expects other lengths", 3,
       [](RankContext& rank, ProcessGroup& world) {
         const Tensor x = ones({3});
         const Lengths64 lengths = rank.rank == 0 ? Lengths64{3, 0, 0} : Lengths64{1, 1, 1};
         world.communicator().scatter(x, 0, 0, lengths, x.meta());
       },
       "mismatch: the ranks of group world entered scatter with different lengths (rank 0)\n"
       "rank 0: in scatter(f32[3], dim 0, lengths 3,0,0, source 0) on group world, call 0\n"
       "ranks 1,2: in scatter(f32[3], dim 0, lengths 1,1,1, source 0) on group world, call 0"},
      {"rank 1 gathers elsewhere", 3,
       [](RankContext& rank, ProcessGroup& world) {
         world.communicator().gather(ones({1}), rank.rank == 1 ? 1 : 2, 0, Lengths64{1, 1, 1});
       },
       "mismatch: the ranks of group world entered gather with different destinations (rank 1)\n"
       "ranks 0,2: in gather(f32[1], dim 0, lengths 1,1,1, destination 2) on group world, call 0\n"
       "rank 1: in gather(f32[1], dim 0, lengths 1,1,1, destination 1) on group world, call 0"},
      {"pieces of all_to_all", 3,
       [](RankContext& rank, ProcessGroup& world) {
         const Lengths64 even{2, 2, 2};
         const Lengths64 uneven{1, 2, 3};
         world.all_to_all(ones({6}), 0, rank.rank == 1 ? uneven : even, 0, even, Issue::kWait);
       },
       "mismatch: the ranks of group world entered all_to_all with parts that do not fit together "
       "(rank 1)\n"
       "ranks 0,2: in all_to_all(f32[6], dim 0 cut 2,2,2, dim 0 joined 2,2,2) on group world, call "
       "0\n"
       "rank 1: in all_to_all(f32[6], dim 0 cut 1,2,3, dim 0 joined 2,2,2) on group world, call 0"},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("B-5 B-6 groups that are made in different ways") {
  const Row rows[] = {
      {"split meets a barrier", 3,
       [](RankContext& rank, ProcessGroup& world) {
         if (rank.rank == 0) {
           world.barrier();
         } else {
           world.communicator().split(0, rank.rank, "pair");
         }
       },
       "mismatch: the ranks of group world entered different collectives (rank 0)\n"
       "rank 0: in barrier() on group world, call 0\n"
       "ranks 1,2: in split(pair) on group world, call 0"},
      {"split with a wrong colour: the group is larger than its ranks think", 4,
       [](RankContext& rank, ProcessGroup& world) {
         const std::int64_t color = rank.rank == 2 ? 0 : rank.rank / 2;
         const auto half = world.communicator().split(color, 0, "half");
         half->all_gather(ones({1}), 0, Lengths64{1, 1}, Issue::kWait);
       },
       "ranks 0-2: all_gather on group half: there are 2 lengths for 3 ranks\n"
       "rank 3: all_gather on group half: there are 2 lengths for 1 ranks"},
      {"rank 1 stays out of the group in which it communicates", 3,
       [](RankContext& rank, ProcessGroup& world) {
         const auto group = world.communicator().split(rank.rank == 1 ? -1 : 0, 0, "all");
         (rank.rank == 1 ? world.communicator() : *group).barrier();
       },
       "deadlock: no rank can advance, ranks 0,2 missing\n"
       "ranks 0,2: ended\n"
       "rank 1: in barrier() on group world, call 1, waiting for ranks 0,2"},
      {"a mesh is made on one rank only", 3,
       [](RankContext& rank, ProcessGroup&) {
         const MeshLayout* layout = process_arena().layout({.shape = {3}, .names = {"x"}});
         if (rank.rank == 1) rank.meshes->construct(layout);
       },
       "deadlock: no rank can advance, ranks 0,2 missing\n"
       "ranks 0,2: ended\n"
       "rank 1: in split(x) on group world, call 0, waiting for ranks 0,2"},
      {"two meshes are made in another order", 2,
       [](RankContext& rank, ProcessGroup&) {
         const MeshLayout* layouts[] = {process_arena().layout({.shape = {2}, .names = {"dp"}}),
                                        process_arena().layout({.shape = {2}, .names = {"tp"}})};
         rank.meshes->construct(layouts[rank.rank]);
         rank.meshes->construct(layouts[1 - rank.rank]);
       },
       "mismatch: the ranks of group world entered split with different names (ranks 0,1)\n"
       "rank 0: in split(dp) on group world, call 0\n"
       "rank 1: in split(tp) on group world, call 0"},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("B-6 K-20 work that nobody waits for") {
  const Row rows[] = {
      {"one rank issues, none waits", 3,
       [](RankContext& rank, ProcessGroup& world) {
         rank.position = {"async.toml", 4, 1};
         if (rank.rank == 1) world.all_reduce(ones({2}), ReduceOp::kSum, Issue::kAsync);
       },
       "deadlock: no rank can advance, ranks 0,2 missing\n"
       "ranks 0,2: ended\n"
       "rank 1: in all_reduce(f32[2], sum) on group world, call 0, at async.toml:4, waiting for "
       "ranks 0,2"},
      {"all issue, what they bring does not fit, none waits", 3,
       [](RankContext& rank, ProcessGroup& world) {
         world.all_reduce(ones({rank.rank == 2 ? 5 : 2}), ReduceOp::kSum, Issue::kAsync);
       },
       "mismatch: the ranks of group world entered all_reduce with different shapes (rank 2)\n"
       "ranks 0,1: in all_reduce(f32[2], sum) on group world, call 0\n"
       "rank 2: in all_reduce(f32[5], sum) on group world, call 0"},
      {"one issues one more than the others and waits for the first only", 2,
       [](RankContext& rank, ProcessGroup& world) {
         const Tensor first = world.all_reduce(ones({2}), ReduceOp::kSum, Issue::kAsync);
         if (rank.rank == 0) world.all_reduce(ones({2}), ReduceOp::kSum, Issue::kAsync);
         first.wait();
       },
       "deadlock: no rank can advance, rank 1 missing\n"
       "rank 0: in all_reduce(f32[2], sum) on group world, call 1, waiting for rank 1\n"
       "rank 1: ended"},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("B-7 death of a rank") {
  const Row rows[] = {
      {"abort", 3,
       [](RankContext& rank, ProcessGroup& world) {
         if (rank.rank == 1) {
           const Error reason(ErrorKind::kRuntime, "out of patience");
           world.communicator().abort(reason);
           throw reason;
         }
         world.barrier();
       },
       "rank 1: out of patience"},
      {"a foreign exception", 9,
       [](RankContext& rank, ProcessGroup& world) {
         if (rank.rank < 4 || rank.rank == 7) throw std::runtime_error("disk full");
         world.barrier();
       },
       "ranks 0-3,7: disk full"},
      {"ranks that die of different things", 4,
       [](RankContext& rank, ProcessGroup& world) {
         if (rank.rank > 1) fail(ErrorKind::kValue, "bad on {}", rank.rank);
         world.barrier();
       },
       "rank 2: bad on 2\nrank 3: bad on 3"},
      {"survivors that catch it learn it again at the next call", 3,
       [](RankContext& rank, ProcessGroup& world) {
         if (rank.rank == 0) fail(ErrorKind::kAssert, "gone");
         try {
           world.barrier();
         } catch (const Error&) {
         }
         world.barrier();
       },
       "rank 0: gone"},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("K-20 pending work that all have issued ends with the run without a word") {
  for (const SchedulerKind kind : kSchedulerKinds) {
    const WorldResult result = run_world(plain_world(4, kind), [](RankContext& rank) {
      for (int i = 0; i < 3; ++i) {
        rank.world->all_reduce(ones({2}), ReduceOp::kSum, Issue::kAsync);
      }
    });
    CHECK(result.ok());
    CHECK_FALSE(result.verdict.has_value());
  }
}
