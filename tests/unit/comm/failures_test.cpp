// Failures that end a world: mismatch, deadlock, a failing rank.
#include <doctest/doctest.h>

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

constexpr SchedulerKind kKinds[] = {SchedulerKind::kPool, SchedulerKind::kThreads};
using Ranks = std::vector<std::int64_t>;

Tensor ones(const Dims& shape, DType dtype = DType::kF32) {
  return local_tensor(shape, dtype,
                      std::vector<double>(static_cast<std::size_t>(product(shape)), 1));
}

// Runs the body on both schedulers; every rank must fail with the same verdict, which is returned.
Verdict verdict_of(std::int64_t ranks, const std::function<void(RankContext&)>& body) {
  Verdict verdict;
  std::string first;
  for (const SchedulerKind kind : kKinds) {
    const WorldResult result = run_world(plain_world(ranks, kind), body);
    REQUIRE(result.verdict.has_value());
    verdict = *result.verdict;
    if (verdict.kind != VerdictKind::kRankFailed) {
      for (const RankFailure& failure : result.failures) {
        CAPTURE(failure.error.text());
        CHECK(failure.error.kind() == ErrorKind::kRuntime);
        CHECK(failure.consequence);
        REQUIRE(failure.error.find("verdict") != nullptr);
        CHECK(*failure.error.find("verdict") == to_string(verdict.kind));
      }
    }
    const std::string now = summary(verdict) + "\n" + text(verdict);
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  return verdict;
}

}  // namespace

TEST_CASE("B-5 different collectives: every rank gets who called what") {
  const Verdict verdict = verdict_of(4, [](RankContext& rank) {
    rank.position = {"mlp.toml", rank.rank == 2 ? 7 : 5, 1};
    if (rank.rank == 2) {
      rank.world->all_gather(ones({1}), 0, std::vector<std::int64_t>{1, 1, 1, 1});
    } else {
      rank.world->all_reduce(ones({1}), ReduceOp::kSum);
    }
  });
  CHECK(verdict.kind == VerdictKind::kMismatch);
  CHECK(verdict.culprits == Ranks{2});
  REQUIRE(verdict.ranks.size() == 4);
  CHECK(verdict.ranks[2].what == "all_gather(f32[1], dim 0, lengths 1,1,1,1)");
  CHECK(verdict.ranks[2].where == "mlp.toml:7");
  CHECK(text(verdict) ==
        "ranks 0,1,3: in all_reduce(f32[1], sum) on group world, call 0, at mlp.toml:5\n"
        "rank 2: in all_gather(f32[1], dim 0, lengths 1,1,1,1) on group world, call 0, at "
        "mlp.toml:7");
}

TEST_CASE("B-5 equal collectives with other dtype, shape, op, dim or lengths do not meet") {
  struct Row {
    const char* what;
    std::function<void(ProcessGroup&, bool odd)> call;
  };
  const Ranks even{2, 2, 2};
  const Ranks uneven{2, 3, 1};
  const Row rows[] = {
      {"dtype",
       [](ProcessGroup& group, bool odd) {
         group.all_reduce(ones({2}, odd ? DType::kF64 : DType::kF32), ReduceOp::kSum);
       }},
      {"shape", [](ProcessGroup& group,
                   bool odd) { group.all_reduce(ones({odd ? 3 : 2}), ReduceOp::kSum); }},
      {"op", [](ProcessGroup& group,
                bool odd) { group.all_reduce(ones({2}), odd ? ReduceOp::kMax : ReduceOp::kSum); }},
      {"dim",
       [&](ProcessGroup& group, bool odd) {
         group.all_gather(ones({2, 2}), odd ? 1 : 0, even);
       }},
      {"K-13 size of another dim",
       [&](ProcessGroup& group, bool odd) {
         group.all_gather(ones({2, odd ? 4 : 5}), 0, even);
       }},
      {"lengths",
       [&](ProcessGroup& group, bool odd) {
         group.reduce_scatter(ones({6}), 0, odd ? uneven : even, ReduceOp::kSum);
       }},
      {"pieces of all_to_all",
       [&](ProcessGroup& group, bool odd) {
         group.all_to_all(ones({6, 2}), 0, odd ? uneven : even, 1, even);
       }},
      {"source of a broadcast",
       [](ProcessGroup& group, bool odd) {
         const Tensor x = ones({2});
         group.broadcast(x, odd ? 1 : 0, x.meta());
       }},
      {"partner of a permute",
       [](ProcessGroup& group, bool odd) {
         const Tensor x = ones({2});
         const std::int64_t me = group.rank();
         group.permute(x, (me + (odd ? 2 : 1)) % 3, (me + 2) % 3, x.meta());
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Verdict verdict =
        verdict_of(3, [&](RankContext& rank) { row.call(*rank.world, rank.rank == 1); });
    CHECK(verdict.kind == VerdictKind::kMismatch);
  }
}

TEST_CASE("B-6 two groups entered in opposite order: a wait-for graph") {
  const MeshLayout* layout = process_arena().layout({.shape = {2, 2}, .names = {"x", "y"}});
  const Verdict verdict = verdict_of(4, [&](RankContext& rank) {
    const DeviceMesh& mesh = rank.meshes->construct(layout);
    // Ranks 0 and 3 begin along x, 1 and 2 along y: each waits for a neighbour.
    const bool x_first = rank.rank == 0 || rank.rank == 3;
    mesh.group(x_first ? 0 : 1).barrier();
    mesh.group(x_first ? 1 : 0).barrier();
  });
  CHECK(verdict.kind == VerdictKind::kDeadlock);
  CHECK(verdict.culprits == Ranks{0, 1, 2, 3});
  CHECK(verdict.ranks[0].group == "x");
  CHECK(verdict.ranks[0].missing == Ranks{2});
  CHECK(verdict.ranks[1].group == "y");
  CHECK(verdict.ranks[1].missing == Ranks{0});
}

TEST_CASE("B-6 D-42 waiting for a rank that has ended: named as ended, with the op that waits") {
  const Verdict verdict = verdict_of(3, [](RankContext& rank) {
    if (rank.rank == 1) return;
    rank.op = "aten::equal";
    rank.position = {"eq.toml", 3, 1};
    rank.world->communicator().all_gather_bytes("yes");
  });
  CHECK(verdict.kind == VerdictKind::kDeadlock);
  CHECK(verdict.culprits == Ranks{1});
  CHECK(verdict.ranks[1].state == RankReport::State::kEnded);
  CHECK(verdict.ranks[0].op == "aten::equal");
  CHECK(summary(verdict) == "deadlock: no rank can advance, rank 1 missing");
  CHECK(text(verdict) ==
        "ranks 0,2: in all_gather_bytes() of aten::equal on group world, call 0, at eq.toml:3, "
        "waiting for rank 1\n"
        "rank 1: ended");
}

TEST_CASE("calls that cannot meet are a mismatch also when others never come") {
  const Verdict verdict = verdict_of(3, [](RankContext& rank) {
    if (rank.rank == 2) return;
    if (rank.rank == 0) rank.world->barrier();
    if (rank.rank == 1) rank.world->all_reduce(ones({1}), ReduceOp::kSum);
  });
  CHECK(verdict.kind == VerdictKind::kMismatch);
  CHECK(verdict.culprits == Ranks{0, 1});
}

TEST_CASE("B-7 K-20 a failure reaches ranks that wait for an asynchronous result") {
  const Verdict verdict = verdict_of(3, [](RankContext& rank) {
    if (rank.rank == 1) fail(ErrorKind::kAssert, "x is y");
    const Tensor y = rank.world->all_reduce(ones({4}), ReduceOp::kSum, Issue::kAsync);
    for (int i = 0; i < 2; ++i) {
      try {
        y.wait();
        FAIL("waited in vain");
      } catch (const Error& error) {
        CHECK(*error.find("verdict") == "rank_failed");
      }
    }
    rank.world->barrier();  // and every later call fails, too
    FAIL("met nobody");
  });
  CHECK(verdict.kind == VerdictKind::kRankFailed);
  CHECK(verdict.culprits == Ranks{1});
  CHECK(verdict.cause == "x is y");
}

TEST_CASE("abort ends the world with its reason") {
  const Verdict verdict = verdict_of(3, [](RankContext& rank) {
    if (rank.rank == 0) {
      rank.world->communicator().abort(Error(ErrorKind::kRuntime, "out of patience"));
    }
    rank.world->barrier();
  });
  CHECK(verdict.kind == VerdictKind::kRankFailed);
  CHECK(verdict.cause == "out of patience");
}

TEST_CASE("a pending result outlives its world without hanging") {
  Tensor kept;
  const WorldResult result = run_world(plain_world(2), [&](RankContext& rank) {
    if (rank.rank == 0) kept = rank.world->all_reduce(ones({4}), ReduceOp::kSum, Issue::kAsync);
  });
  CHECK_FALSE(result.ok());
  CHECK_THROWS_AS(kept.wait(), Error);
}

TEST_CASE("bad arguments are Value and name group and call") {
  struct Row {
    const char* message;
    std::function<void(ProcessGroup&)> call;
  };
  const Row rows[] = {
      {"all_reduce on group world: reduction avg does not exist for dtype i32",
       [](ProcessGroup& group) { group.all_reduce(ones({2}, DType::kI32), ReduceOp::kAvg); }},
      {"all_reduce on group world: reduction band does not exist for dtype f32",
       [](ProcessGroup& group) { group.all_reduce(ones({2}), ReduceOp::kBitAnd); }},
      {"all_gather on group world: tensor dim 1 is out of range for a tensor of 1 dims",
       [](ProcessGroup& group) {
         group.all_gather(ones({2}), 1, Ranks{2, 2});
       }},
      {"all_gather on group world: there are 3 lengths for 2 ranks",
       [](ProcessGroup& group) {
         group.all_gather(ones({2}), 0, Ranks{2, 2, 2});
       }},
      {"all_gather on group world: tensor dim 0 has size 2, the lengths say 1",
       [](ProcessGroup& group) {
         group.all_gather(ones({2}), 0, Ranks{1, 1});
       }},
      {"group world of 2 ranks has no source 2",
       [](ProcessGroup& group) {
         const Tensor x = ones({2});
         group.broadcast(x, 2, x.meta());
       }},
  };
  for (const Row& row : rows) {
    const WorldResult result =
        run_world(plain_world(2), [&](RankContext& rank) { row.call(*rank.world); });
    REQUIRE_FALSE(result.ok());
    const Error error = result.merged();
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(error.summary() == row.message);
  }
}

TEST_CASE("a set of ranks reads as one") {
  CHECK(fold_ranks(Ranks{4}) == "rank 4");
  CHECK(fold_ranks(Ranks{0, 1, 2, 3, 7}) == "ranks 0-3,7");
}
