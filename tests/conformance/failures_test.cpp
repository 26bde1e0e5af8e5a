// Errors on all ranks when one of them calls something else, ends early, throws or gives up.
#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "comm/verdict.h"
#include "tests/conformance/setting.h"
#include "tests/support/local_tensor.h"

using namespace shardlab;

namespace {

using Ranks = std::vector<std::int64_t>;

Tensor ones(std::int64_t count) {
  return local_tensor({count}, DType::kF32,
                      std::vector<double>(static_cast<std::size_t>(count), 1));
}

bool is_last(const RankContext& rank) { return rank.rank == rank.world_size - 1; }

Ranks failed_ranks(const WorldResult& result) {
  Ranks ranks;
  for (const RankFailure& failure : result.failures) ranks.push_back(failure.rank);
  return ranks;
}

Ranks first_ranks(std::int64_t count) {
  Ranks ranks;
  for (std::int64_t rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

// Neither of two ranks that differ is the odd one.
Ranks odd_of(std::int64_t ranks) { return ranks == 2 ? Ranks{0, 1} : Ranks{ranks - 1}; }

void check_mismatch(const std::function<void(RankContext&)>& body, const std::string& cause) {
  on_failing_worlds(body, [&](std::int64_t ranks, const WorldResult& result) {
    REQUIRE(result.verdict);
    CHECK(result.verdict->kind == VerdictKind::kMismatch);
    CHECK(result.verdict->cause == cause);
    CHECK(result.verdict->culprits == odd_of(ranks));
    CHECK(failed_ranks(result) == first_ranks(ranks));
    for (const RankFailure& failure : result.failures) {
      CHECK(failure.error.summary() == summary(*result.verdict));
    }
  });
}

void mismatch_case() {
  if (!calls_are_compared()) return;
  check_mismatch(
      [](RankContext& rank) {
        rank.world->all_reduce(ones(is_last(rank) ? 3 : 2), ReduceOp::kSum);
      },
      "the ranks of group world entered all_reduce with different shapes");
  check_mismatch(
      [](RankContext& rank) {
        if (is_last(rank)) return rank.world->barrier();
        rank.world->all_reduce(ones(2), ReduceOp::kSum);
      },
      "the ranks of group world entered different collectives");
}

void mismatch_async_case() {
  if (!calls_are_compared()) return;
  check_mismatch(
      [](RankContext& rank) {
        const Tensor good = rank.world->all_reduce(ones(2), ReduceOp::kSum, Issue::kAsync);
        const Tensor odd = rank.world->all_reduce(
            ones(2), is_last(rank) ? ReduceOp::kMax : ReduceOp::kSum, Issue::kAsync);
        good.wait();
        odd.wait();
      },
      "the ranks of group world entered all_reduce with different reductions");
}

void check_deadlock(const std::function<void(RankContext&)>& body) {
  on_failing_worlds(body, [](std::int64_t ranks, const WorldResult& result) {
    REQUIRE(result.verdict);
    CHECK(result.verdict->kind == VerdictKind::kDeadlock);
    CHECK(result.verdict->culprits == Ranks{ranks - 1});
    CHECK(failed_ranks(result) == first_ranks(ranks - 1));
  });
}

void deadlock_case() {
  if (!calls_are_compared()) return;
  check_deadlock([](RankContext& rank) {
    if (!is_last(rank)) rank.world->barrier();
  });
  check_deadlock([](RankContext& rank) {
    const Tensor sum = rank.world->all_reduce(ones(1), ReduceOp::kSum);
    CHECK(values_of(sum)[0] == static_cast<double>(rank.world_size));
    if (!is_last(rank)) rank.world->all_reduce(ones(1), ReduceOp::kSum, Issue::kAsync).wait();
  });
}

// The last rank fails by itself, all others because of it.
void check_death(const std::function<void(RankContext&)>& body, const std::string& reason) {
  on_failing_worlds(body, [&](std::int64_t ranks, const WorldResult& result) {
    REQUIRE(result.verdict);
    CHECK(result.verdict->kind == VerdictKind::kRankFailed);
    CHECK(result.verdict->culprits == Ranks{ranks - 1});
    CHECK(result.verdict->cause == reason);
    REQUIRE(failed_ranks(result) == first_ranks(ranks));
    CHECK(result.failures.back().error.summary() == reason);
    for (const RankFailure& failure : result.failures) {
      CHECK(failure.consequence == (failure.rank != ranks - 1));
      CHECK(failure.error.text().find(reason) != std::string::npos);
    }
  });
}

void death_case() {
  const auto fail_last = [](const RankContext& rank) {
    if (is_last(rank)) fail(ErrorKind::kValue, "no luck on rank {}", rank.world_size - 1);
  };
  const auto check = [](const std::function<void(RankContext&)>& body) {
    on_failing_worlds(body, [](std::int64_t ranks, const WorldResult& result) {
      REQUIRE(result.verdict);
      CHECK(result.verdict->cause == "no luck on rank " + std::to_string(ranks - 1));
      CHECK(result.failures.back().error.kind() == ErrorKind::kValue);
    });
  };
  // Before any call, after one that all have made, and while others wait for a result.
  check([&](RankContext& rank) {
    fail_last(rank);
    rank.world->barrier();
  });
  check([&](RankContext& rank) {
    rank.world->all_reduce(ones(3), ReduceOp::kSum);
    fail_last(rank);
    rank.world->all_reduce(ones(3), ReduceOp::kSum);
  });
  check([&](RankContext& rank) {
    fail_last(rank);
    rank.world->all_reduce(ones(3), ReduceOp::kSum, Issue::kAsync).wait();
  });
  check_death(
      [](RankContext& rank) {
        if (is_last(rank)) throw std::runtime_error("disk full");
        rank.world->barrier();
      },
      "disk full");
}

void abort_case() {
  check_death(
      [](RankContext& rank) {
        if (is_last(rank)) {
          const Error reason(ErrorKind::kRuntime, "out of patience");
          rank.world->communicator().abort(reason);
          throw reason;
        }
        rank.world->barrier();
      },
      "out of patience");
}

}  // namespace

TEST_CASE("B-5 calls that do not fit: every rank hears which and whose") { mismatch_case(); }
TEST_CASE("B-5 K-20 asynchronous calls that do not fit") { mismatch_async_case(); }
TEST_CASE("B-6 a rank that ends early is missed by those that wait") { deadlock_case(); }
TEST_CASE("B-7 a rank that throws: all others repeat its reason") { death_case(); }
TEST_CASE("B-7 a rank that aborts: all others repeat its reason") { abort_case(); }
