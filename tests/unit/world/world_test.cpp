#include "sim/world/world.h"

#include <doctest/doctest.h>

#include <set>

#include "backends/threads/threads.h"
#include "comm/device_mesh.h"
#include "comm/forwarding_communicator.h"
#include "comm/process_group.h"
#include "mesh/spec.h"
#include "sim/world/backends.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

TEST_CASE("a world runs its body once on every rank, with a context of its own") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kThreads}) {
    std::vector<std::int64_t> seen(5, -1);
    WorldOptions options = plain_world(5, kind);
    options.seed = 77;
    on_ranks(options, [&](RankContext& rank) {
      CHECK(&current_rank() == &rank);
      CHECK(rank.world->size() == 5);
      CHECK(rank.world->rank() == rank.rank);
      CHECK(rank.random.seed == 77);
      seen[static_cast<std::size_t>(rank.rank)] = rank.rank;
    });
    CHECK(seen == std::vector<std::int64_t>{0, 1, 2, 3, 4});
    CHECK(current_rank_or_null() == nullptr);
  }
}

TEST_CASE("all_reduce over 8 ranks: the sum on every rank, one Buffer for all") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kThreads}) {
    std::vector<const void*> data(8);
    std::vector<Tensor> keep(8);
    on_ranks(plain_world(8, kind), [&](RankContext& rank) {
      const auto me = static_cast<double>(rank.rank);
      const Tensor x = local_tensor({2, 2}, DType::kF32, {me, 10 * me, 1, -me});
      const Tensor y = rank.world->all_reduce(x, ReduceOp::kSum);
      CHECK(values_of(y) == std::vector<double>{28, 280, 8, -28});
      data[static_cast<std::size_t>(rank.rank)] = y.storage()->buffer()->data();
      keep[static_cast<std::size_t>(rank.rank)] = y;
    });
    CHECK(std::set<const void*>(data.begin(), data.end()).size() == 1);
  }
}

TEST_CASE("a world is used again; runs share nothing") {
  World world(plain_world(3));
  for (int i = 0; i < 3; ++i) {
    const WorldResult result = world.run([](RankContext& rank) { rank.world->barrier(); });
    CHECK(result.ok());
  }
}

TEST_CASE(
    "B-16 a failure is told while the rank's communicators are alive, and its end afterwards") {
  static std::vector<std::string> heard;
  class Told final : public Backend {
   public:
    explicit Told(std::unique_ptr<Backend> real) : real_(std::move(real)) {}
    std::unique_ptr<Communicator> world(std::int64_t rank) override { return real_->world(rank); }
    void rank_ended(std::int64_t rank) override {
      heard.push_back("ended");
      real_->rank_ended(rank);
    }
    void rank_failed(std::int64_t rank, const Error& cause) override {
      heard.push_back("failed: " + cause.summary());
      real_->rank_failed(rank, cause);
    }
    const Verdict* verdict() const override { return real_->verdict(); }

   private:
    const std::unique_ptr<Backend> real_;
  };
  struct Gone final : ForwardingCommunicator {
    using ForwardingCommunicator::ForwardingCommunicator;
    ~Gone() override { heard.push_back("communicator gone"); }
    std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override { return part; }
  };
  register_backend("told", [](std::int64_t ranks, Scheduler& scheduler) {
    return std::make_unique<Told>(make_threads_backend(ranks, scheduler));
  });
  WorldOptions options = plain_world(1);
  options.backend = "told";
  options.communicator = [](std::unique_ptr<Communicator> real) {
    return std::make_unique<Gone>(std::move(real));
  };
  run_world(options, [](RankContext&) { fail(ErrorKind::kValue, "a bad size"); });
  CHECK(heard == std::vector<std::string>{"failed: a bad size", "communicator gone", "ended"});
  heard.clear();
  run_world(options, [](RankContext&) {});
  CHECK(heard == std::vector<std::string>{"communicator gone", "ended"});
}

TEST_CASE("B-7 a failing rank releases the others, which name it and its cause") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kThreads}) {
    const WorldResult result = run_world(plain_world(4, kind), [](RankContext& rank) {
      if (rank.rank == 2) fail(ErrorKind::kValue, "a bad size");
      rank.world->barrier();
    });
    REQUIRE(result.verdict.has_value());
    CHECK(result.verdict->kind == VerdictKind::kRankFailed);
    CHECK(result.verdict->culprits == std::vector<std::int64_t>{2});
    REQUIRE(result.failures.size() == 4);
    for (const RankFailure& failure : result.failures) {
      CHECK(failure.consequence == (failure.rank != 2));
      if (failure.rank == 2) continue;
      CHECK(failure.error.kind() == ErrorKind::kRuntime);
      CHECK(failure.error.summary() == "rank 2 failed: a bad size");
      REQUIRE(failure.error.cause() != nullptr);
      CHECK(failure.error.cause()->kind() == ErrorKind::kValue);
    }
    const Error merged = result.merged();
    CHECK(merged.kind() == ErrorKind::kValue);
    CHECK(merged.summary() == "a bad size");
    CHECK(*merged.find("failed") == "rank 2");
  }
}

TEST_CASE("merged failures tell the primary one from others that failed on their own") {
  const WorldResult result = run_world(plain_world(3), [](RankContext& rank) {
    if (rank.rank < 2) fail(ErrorKind::kValue, "bad on {}", rank.rank);
    rank.world->barrier();
  });
  const Error merged = result.merged();
  CHECK(merged.summary() == "bad on 0");
  REQUIRE(merged.find("others") != nullptr);
  CHECK(*merged.find("others") == "rank 1: bad on 1");
}

TEST_CASE("ranks that fail alike are one failure, told by the lowest of them") {
  for (const SchedulerKind kind : {SchedulerKind::kPool, SchedulerKind::kThreads}) {
    WorldOptions options = plain_world(4);
    options.schedule.kind = kind;
    const WorldResult result = run_world(options, [](RankContext& rank) {
      throw Error(ErrorKind::kValue, "bad everywhere").with("at", fmt::format("{}", rank.rank));
    });
    const Error merged = result.merged();
    CHECK(*merged.find("at") == "0");
    CHECK(*merged.find("failed") == "ranks 0-3");
    CHECK(merged.find("others") == nullptr);
  }
}

TEST_CASE("exceptions of other types reach the caller as they were") {
  struct Odd {};
  CHECK_THROWS_AS(on_ranks(2,
                           [](RankContext& rank) {
                             if (rank.rank == 1) throw Odd();
                             rank.world->barrier();
                           }),
                  Odd);
}

TEST_CASE("a world refuses bad options") {
  const auto nothing = [](RankContext&) {};
  CHECK_THROWS_AS(run_world(plain_world(0), nothing), Error);
  WorldOptions unknown = plain_world(2);
  unknown.backend = "pigeon";
  try {
    run_world(unknown, nothing);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(error.find("fix")->find("threads") != std::string::npos);
  }
}
