#include <doctest/doctest.h>

#include <vector>

#include "api/shardlab.h"
#include "comm/process_group.h"
#include "comm/verdict.h"
#include "sim/world/spmd.h"
#include "tensor/host.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;

Tensor vector_of(const Values& values) {
  return local_tensor(Dims{static_cast<std::int64_t>(values.size())}, DType::kF64, values);
}
TensorMeta vector_meta(std::int64_t size) { return contiguous_meta(Dims{size}, DType::kF64); }

Verdict verdict_on(std::int64_t ranks, const std::function<void(RankContext&)>& body) {
  const WorldResult result = run_world(plain_world(ranks), body);
  REQUIRE(result.verdict.has_value());
  return *result.verdict;
}

}  // namespace

TEST_CASE("B-24 messages under one tag keep their order, under several each has its own") {
  on_ranks(2, [](RankContext& rank) {
    ProcessGroup& world = *rank.world;
    if (rank.rank == 0) {
      const Tensor a = world.send(vector_of({1}), 1, 0, Issue::kAsync);
      const Tensor b = world.send(vector_of({2}), 1, 5, Issue::kAsync);
      const Tensor c = world.send(vector_of({3}), 1, 0, Issue::kAsync);
      for (const Tensor* sent : {&a, &b, &c}) sent->wait();
      CHECK(a.numel() == 0);
    } else {
      CHECK(values_of(world.recv(vector_meta(1), 0, 5)) == Values{2});
      CHECK(values_of(world.recv(vector_meta(1), 0, 0)) == Values{1});
      CHECK(values_of(world.recv(vector_meta(1), 0, 0)) == Values{3});
    }
  });
}

TEST_CASE("B-24 a message has the elements at the time of sending, and the receiver's shape") {
  on_ranks(2, [](RankContext& rank) {
    if (rank.rank == 0) {
      Tensor x = vector_of({1, 2, 3, 4});
      const Tensor sent = rank.world->send(x, 1, 0, Issue::kAsync);
      plain_device().copy(x, vector_of({9, 9, 9, 9}));
      rank.world->barrier();
      sent.wait();
    } else {
      rank.world->barrier();
      const Tensor got = rank.world->recv(contiguous_meta(Dims{2, 2}, DType::kF64), 0, 0);
      CHECK(got.shape() == Dims{2, 2});
      CHECK(values_of(got) == Values{1, 2, 3, 4});
    }
  });
}

TEST_CASE("B-24 a rank sends to itself where it does not wait") {
  on_ranks(1, [](RankContext& rank) {
    const Tensor sent = rank.world->send(vector_of({7}), 0, 0, Issue::kAsync);
    CHECK(values_of(rank.world->recv(vector_meta(1), 0, 0)) == Values{7});
    sent.wait();
  });
  const Verdict alone =
      verdict_on(1, [](RankContext& rank) { rank.world->recv(vector_meta(1), 0, 0); });
  CHECK(summary(alone) ==
        "deadlock: no rank can advance, rank 0 waits for itself: rank 0 receives from rank 0");
}

TEST_CASE("B-24 from any rank: each message once, whoever comes first") {
  for (const SchedulerKind kind : kSchedulerKinds) {
    on_ranks(plain_world(4, kind), [](RankContext& rank) {
      if (rank.rank > 0) {
        rank.world->send(vector_of({static_cast<double>(10 * rank.rank)}), 0, 3);
        return;
      }
      std::vector<bool> seen(4);
      for (int i = 0; i < 3; ++i) {
        std::int64_t from = -1;
        const Tensor got = rank.world->recv_from_any(vector_meta(1), 3, from);
        CHECK(values_of(got)[0] == static_cast<double>(10 * from));
        CHECK_FALSE(seen[static_cast<std::size_t>(from)]);
        seen[static_cast<std::size_t>(from)] = true;
      }
    });
  }
}

TEST_CASE("B-24 a receive from any rank waits in vain after all others have ended") {
  const Verdict verdict = verdict_on(3, [](RankContext& rank) {
    std::int64_t from = -1;
    if (rank.rank == 1) rank.world->recv_from_any(vector_meta(1), 0, from);
  });
  CHECK(summary(verdict) ==
        "deadlock: no rank can advance, ranks 0,2 missing: rank 1 receives from any rank, and all "
        "others have ended");
  CHECK(text(verdict) ==
        "ranks 0,2: ended\n"
        "rank 1: in recv(f64[1], from any rank) on group world, call 0, waiting for ranks 0,2");
}

TEST_CASE("B-24 sends that wait for each other while others go on are found") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kSeeded}) {
    std::int64_t passed = 0;
    const WorldResult result = run_world(plain_world(4, kind), [&](RankContext& rank) {
      ProcessGroup& world = *rank.world;
      if (rank.rank < 2) world.send(vector_of({1}), 1 - rank.rank, 0);
      for (int i = 0; i < 100'000; ++i) {
        if (rank.rank == 2) world.send(vector_of({1}), 3, 0);
        if (rank.rank == 3) world.recv(vector_meta(1), 2, 0);
        if (rank.rank == 2) ++passed;
      }
    });
    REQUIRE(result.verdict.has_value());
    CHECK(summary(*result.verdict) ==
          "deadlock: ranks 0,1 wait for each other: rank 0 sends to rank 1 while rank 1 sends to "
          "rank 0");
    CHECK(passed < 5'000);
  }
}

TEST_CASE("B-24 a message that does not fit is named by both sides") {
  const Verdict verdict = verdict_on(2, [](RankContext& rank) {
    if (rank.rank == 0) rank.world->send(vector_of({1, 2}), 1, 4);
    if (rank.rank == 1) rank.world->recv(vector_meta(3), 0, 4);
  });
  CHECK(
      summary(verdict) ==
      "mismatch: rank 0 sends f64[2] to rank 1 with tag 4, and rank 1 receives f64[3] from rank 0 "
      "with tag 4 (ranks 0,1)");
}

TEST_CASE(
    "B-24 a program in C++ sends what receives into a tensor, waits for it and takes from any") {
  spmd(2, [](RankContext& rank) {
    ProcessGroup& world = *rank.world;
    if (rank.rank == 0) {
      const DTensor x = tensor({1, 2, 3, 4}, {4});
      const CollectInto message{.kind = CollectiveKind::kSend, .inputs = {x}, .root = 1, .tag = 2};
      collect_into(message, world);
      collect_into(message, world);
      return;
    }
    const DTensor first = zeros({2, 2}), second = zeros({4});
    wait(start_collect_into(
        {.kind = CollectiveKind::kRecv, .inputs = {}, .outputs = {first}, .root = 0, .tag = 2},
        world));
    CHECK(read_doubles(first.local()) == Values{1, 2, 3, 4});
    const std::int64_t from = receive_from_any({.kind = CollectiveKind::kRecv,
                                                .inputs = {},
                                                .outputs = {second},
                                                .root = kAnyRank,
                                                .tag = 2},
                                               world);
    CHECK(from == 0);
    CHECK(read_doubles(second.local()) == Values{1, 2, 3, 4});
  });
}
