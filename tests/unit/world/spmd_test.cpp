#include "sim/world/spmd.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace shardlab;

TEST_CASE("spmd runs its body once on every rank, under each scheduler") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kThreads}) {
    std::vector<double> sums(5);
    WorldOptions options;
    options.ranks = 5;
    options.schedule.kind = kind;
    spmd(options, [&](RankContext& rank) {
      const DTensor mine = full({1}, static_cast<double>(rank.rank));
      const DTensor all = from_local(mine, init_mesh({{"tp", 5}}), "tp=P(sum)");
      sums[static_cast<std::size_t>(rank.rank)] = read_doubles(full_tensor(all).local()).at(0);
    });
    CHECK(sums == std::vector<double>(5, 10));
  }
}

TEST_CASE("B-7 an exception in one rank is rethrown and names the rank") {
  const auto body = [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 4}});
    const DTensor x = ones({8}, {.mesh = mesh, .placements = {Placement::shard(0)}});
    if (rank.rank == 2) fail(ErrorKind::kValue, "a bad size");
    full_tensor(x);
  };
  try {
    spmd(4, body);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(error.summary() == "a bad size");
    REQUIRE(error.find("failed") != nullptr);
    CHECK(*error.find("failed") == "rank 2");
  }
}

TEST_CASE("an exception of another type is thrown as it was") {
  CHECK_THROWS_AS(spmd(2,
                       [](RankContext& rank) {
                         if (rank.rank == 1) throw std::out_of_range("beyond");
                       }),
                  std::out_of_range);
}

TEST_CASE("tensors outlive the run that made them, their tapes included") {
  DTensor kept;
  spmd(1, [&](RankContext&) {
    const DTensor x = tensor({1, 2, 3}, {3});
    require_grad(x);
    kept = x * x;
  });
  CHECK(read_doubles(kept.local()) == std::vector<double>{1, 4, 9});
  spmd(1, [&](RankContext&) { backward(sum(kept)); });
}

TEST_CASE("a gradient that follows from the loss's own alone is computed once") {
  std::vector<DTensor> gradients(3);
  WorldOptions options;
  options.ranks = 3;
  spmd(options, [&](RankContext& rank) {
    const DTensor x =
        full({4}, 1.0 + static_cast<double>(rank.rank));  // no two ranks have the same
    x.requires_grad_();
    mean(x).backward();
    gradients[static_cast<std::size_t>(rank.rank)] = x.grad();
  });
  CHECK(read_doubles(gradients[2].local()) == std::vector<double>{0.25, 0.25, 0.25, 0.25});
  CHECK(gradients[0].local().data<float>() == gradients[2].local().data<float>());
}

TEST_CASE("spmd runs equal kernels once, and who writes to a result writes to its own") {
  for (const KernelSharing sharing : {KernelSharing::kOn, KernelSharing::kOff}) {
    std::vector<DTensor> squares(3);
    WorldOptions options;
    options.ranks = 3;
    options.sharing = sharing;
    spmd(options, [&](RankContext& rank) {
      const DTensor x = full({4}, 3.0);
      squares[static_cast<std::size_t>(rank.rank)] = x * x;
    });
    const bool shared = squares[0].local().data<float>() == squares[2].local().data<float>();
    CHECK(shared == (sharing == KernelSharing::kOn));
    spmd(options, [&](RankContext& rank) {
      if (rank.rank == 1) squares[1].local().mutable_data<float>()[0] = 7;
    });
    CHECK(read_doubles(squares[0].local()) == std::vector<double>{9, 9, 9, 9});
    CHECK(read_doubles(squares[1].local()) == std::vector<double>{7, 9, 9, 9});
    CHECK(read_doubles(squares[2].local()) == std::vector<double>{9, 9, 9, 9});
  }
}
