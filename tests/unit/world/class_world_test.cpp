// Worlds of shapes: ranks of one class, and the sum of their logs.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "backends/fake/shape_device.h"
#include "comm/device_mesh.h"
#include "mesh/local_shape.h"
#include "sim/log/trace.h"
#include "sim/world/world.h"
#include "tensor/device.h"

namespace shardlab {
namespace {

struct ClassSetting {
  Arena arena;
  std::unique_ptr<Device> device = make_shape_device();
  WorldOptions options;

  ClassSetting(Dims shape, std::int64_t ranks, std::vector<std::int64_t> array = {}) {
    MeshLayout::Init init;
    const std::vector<std::string> names = {"dp", "tp", "pp", "cp"};
    init.names.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shape.size()));
    init.shape = std::move(shape);
    init.ranks = std::move(array);
    options.layout = arena.layout(std::move(init));
    options.ranks = ranks;
    options.backend = "fake";
    options.device = [this](std::int64_t) -> Device& { return *device; };
  }

  using Body = std::function<void(RankContext&, RankQuestions&)>;
  /// Classes are not brought together again.
  WorldResult run(const Body& body) {
    return run_world(options, [&](RankContext& rank, const RunsFor& runs) {
      rank.meshes->construct(options.layout);
      body(rank, *runs.questions);
    });
  }
  ProcessGroup& group(std::size_t mesh_dim) const {
    return device_mesh(options.layout).group(mesh_dim);
  }
  Tensor tensor(Dims shape) const { return empty(*device, shape, DType::kF32); }
};

TEST_CASE("B-8 a program that cuts nothing has one class, whatever the world's size") {
  ClassSetting setting({1024, 1024}, 1 << 20);
  int runs = 0;
  const WorldResult result = setting.run([&](RankContext&, RankQuestions&) { ++runs; });
  CHECK(runs == 1);
  REQUIRE(result.classes.size() == 1);
  CHECK(result.classes[0].size == 1 << 20);
  CHECK(result.classes[0].where.empty());
  CHECK(result.ok());
}

TEST_CASE("ranks outside of the mesh are a class of their own") {
  ClassSetting setting({2}, 5);
  const WorldResult result = setting.run([](RankContext&, RankQuestions&) {});
  REQUIRE(result.classes.size() == 2);
  CHECK(result.classes[1].size == 3);
  CHECK(result.classes[1].where == "ranks 2-4");
  CHECK(result.class_of == std::vector<std::size_t>{0, 0, 1, 1, 1});
}

TEST_CASE("7 rows over 4 ranks make two classes, 1 row two, none one") {
  for (const auto& [rows, classes] : std::map<std::int64_t, std::size_t>{{7, 2}, {1, 2}, {0, 1}}) {
    ClassSetting setting({4}, 4);
    const WorldResult result = setting.run([&, rows = rows](RankContext&, RankQuestions&) {
      setting.arena.spec(setting.options.layout, {Placement::shard(0)},
                         contiguous_meta(Dims{rows, 5}, DType::kF32));
    });
    CHECK(result.classes.size() == classes);
  }
}

// Two ranks are of one class exactly when all local shapes and all answers are the same, by brute
// force over all ranks.
TEST_CASE("random specs and questions on meshes of up to 4 dims: classes are right") {
  std::mt19937 random(11);
  const auto below = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  std::size_t most_classes = 0;
  for (int round = 0; round < 150; ++round) {
    Dims shape;
    for (std::int64_t i = 1 + below(4); i > 0; --i) shape.push_back(1 + below(5));
    const std::int64_t inside = product(shape);
    std::vector<std::int64_t> array;
    if (below(4) == 0) {
      for (std::int64_t i = 0; i < inside; ++i) array.push_back(i);
      std::shuffle(array.begin(), array.end(), random);
    }
    ClassSetting setting(shape, inside + below(3), array);
    const MeshLayout& layout = *setting.options.layout;
    std::vector<std::pair<Placements, Dims>> drawn;
    for (std::int64_t i = below(4); i > 0; --i) {
      Placements placements(layout.ndim());
      for (Placement& placement : placements) {
        if (below(3) > 0) placement = Placement::shard(below(2));
      }
      drawn.emplace_back(placements, Dims{below(12), below(12)});
    }
    const std::int64_t period = 1 + below(3);
    // Ranks with an even answer continue with another question.
    const auto answer = [&](std::int64_t rank) {
      return static_cast<std::uint64_t>(rank % period);
    };
    const auto second = [&](std::int64_t rank) { return static_cast<std::uint64_t>(rank > 3); };
    const WorldResult result = setting.run([&](RankContext& rank, RankQuestions& questions) {
      for (const auto& [placements, sizes] : drawn) {
        setting.arena.spec(&layout, placements, contiguous_meta(sizes, DType::kF32));
      }
      questions.ask(answer);
      if (answer(rank.rank) % 2 == 0) questions.ask(second);
    });
    std::map<std::vector<std::int64_t>, std::size_t> expected;
    REQUIRE(result.class_of.size() == static_cast<std::size_t>(setting.options.ranks));
    for (std::int64_t rank = 0; rank < setting.options.ranks; ++rank) {
      std::vector<std::int64_t> key = {static_cast<std::int64_t>(answer(rank))};
      key.push_back(key[0] % 2 == 0 ? static_cast<std::int64_t>(second(rank)) : 0);
      const auto coordinate = layout.coordinate_of(rank);
      key.push_back(coordinate.has_value());
      for (const auto& [placements, sizes] : drawn) {
        if (!coordinate) continue;
        const auto* spec =
            setting.arena.spec(&layout, placements, contiguous_meta(sizes, DType::kF32));
        for (const std::int64_t size : local_shape(*spec, *coordinate)) key.push_back(size);
      }
      const std::size_t found = result.class_of[static_cast<std::size_t>(rank)];
      const auto [known, fresh] = expected.try_emplace(key, found);
      CHECK(known->second == found);
    }
    CHECK(expected.size() == result.classes.size());
    most_classes = std::max(most_classes, result.classes.size());
  }
  CHECK(most_classes > 8);
}

TEST_CASE("B-6 a rank that skips a barrier is a deadlock that names it") {
  ClassSetting setting({4}, 4);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions& questions) {
    questions.ask([](std::int64_t other) { return static_cast<std::uint64_t>(other == 3); });
    if (rank.rank != 3) setting.group(0).barrier();
  });
  REQUIRE(result.verdict);
  CHECK(result.verdict->kind == VerdictKind::kDeadlock);
  CHECK(result.verdict->culprits == std::vector<std::int64_t>{3});
  CHECK(text(*result.verdict) ==
        "ranks 0-2: in barrier() on group dp, call 0, waiting for rank 3\nrank 3: ended");
}

TEST_CASE("B-5 different collectives on a million ranks are a mismatch that names the odd rank") {
  ClassSetting setting({1024, 1024}, 1 << 20);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions& questions) {
    questions.ask([](std::int64_t other) { return static_cast<std::uint64_t>(other == 2051); });
    const Tensor x = setting.tensor({4});
    setting.group(1).all_reduce(x, rank.rank == 2051 ? ReduceOp::kMax : ReduceOp::kSum);
  });
  REQUIRE(result.verdict);
  CHECK(result.verdict->kind == VerdictKind::kMismatch);
  CHECK(result.verdict->culprits == std::vector<std::int64_t>{2051});
}

// Ranks 0 and 3 begin along dp, 1 and 2 along tp: 0 waits for 2, 2 for 3, 3 for 1, 1 for 0.
TEST_CASE("B-6 two groups used in another order go round in a circle") {
  ClassSetting setting({2, 2}, 4);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions& questions) {
    const auto begins_along_dp = [](std::int64_t other) { return other == 0 || other == 3; };
    questions.ask(begins_along_dp);
    const std::size_t first = begins_along_dp(rank.rank) ? 0 : 1;
    setting.group(first).barrier();
    setting.group(1 - first).barrier();
  });
  REQUIRE(result.verdict);
  CHECK(result.verdict->kind == VerdictKind::kDeadlock);
  CHECK(result.verdict->culprits == std::vector<std::int64_t>{0, 1, 2, 3});
}

// With rank 0 alone along dp first, 2 reaches it from 3, and then 1 is met.
TEST_CASE("another order that does not go round in a circle is none of our business") {
  ClassSetting setting({2, 2}, 4);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions& questions) {
    questions.ask([](std::int64_t other) { return static_cast<std::uint64_t>(other == 0); });
    const std::size_t first = rank.rank == 0 ? 0 : 1;
    setting.group(first).barrier();
    setting.group(1 - first).barrier();
  });
  CHECK_FALSE(result.verdict);
}

TEST_CASE("asynchronous calls may be issued in any order on two groups") {
  ClassSetting setting({2, 2}, 4);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions& questions) {
    questions.ask([](std::int64_t other) { return static_cast<std::uint64_t>(other == 0); });
    const std::size_t first = rank.rank == 0 ? 0 : 1;
    const Tensor x = setting.tensor({4});
    const Tensor a = setting.group(first).all_reduce(x, ReduceOp::kSum, Issue::kAsync);
    const Tensor b = setting.group(1 - first).all_reduce(x, ReduceOp::kSum, Issue::kAsync);
    a.wait();
    b.wait();
  });
  CHECK_FALSE(result.verdict);
}

TEST_CASE("K-20 a wait is told where one rank stands for many, with the group it stands in") {
  ClassSetting setting({2, 3}, 6);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions&) {
    Trace trace(TraceDetail::kEvents);
    rank.observer = &trace;
    rank.mode |= kModeObserve;
    const Tensor sum =
        setting.group(1).all_reduce(setting.tensor({0, 2}), ReduceOp::kSum, Issue::kAsync);
    setting.group(0).barrier();
    sum.wait();
    sum.wait();
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
    REQUIRE(trace.events().size() == 3);
    const CollectiveRecord& waited = trace.events()[2].collective;
    CHECK(trace.events()[2].kind == TraceEvent::Kind::kWait);
    CHECK(waited.group == trace.events()[0].collective.group);
    CHECK(waited.group.layout == setting.options.layout);
    CHECK(waited.group.mesh_dims == InlineVector<std::size_t, 4>{1});
    CHECK(waited.group.ranks() == std::vector<std::int64_t>{0, 1, 2});
    CHECK(waited.sequence == 0);
  });
  CHECK(result.classes.size() == 1);
  CHECK(result.ok());
}

// Every rank sends 4 elements to the right; the odd rank may differ.
void send_right(ProcessGroup& group, std::int64_t odd, std::int64_t elements, Tensor x) {
  const std::int64_t last = group.size() - 1, me = group.rank();
  group.compare_answers([&](std::int64_t rank) {
    return static_cast<std::uint64_t>(rank == odd ? 3 : rank == 0 ? 1 : rank == last ? 2 : 0);
  });
  std::vector<SendRecv> exchange;
  if (me > 0) {
    exchange.push_back({.peer = me - 1, .receives = true});
    exchange.back().receive = x.meta();
  }
  if (me < last) {
    exchange.push_back({.peer = me + 1});
    exchange.back().send = me == odd ? x.narrow(0, 0, elements) : x;
  }
  const std::vector<Tensor> received = group.batch(exchange);
  REQUIRE(received.size() == exchange.size());
  if (me > 0) CHECK(received[0].shape() == x.shape());
}

TEST_CASE("B-8 an exchange with neighbours has classes for the ends and all between") {
  ClassSetting setting({2, 7}, 15);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions&) {
    if (rank.rank < 14) send_right(setting.group(1), -1, 4, setting.tensor({4}));
  });
  CHECK(result.ok());
  REQUIRE(result.classes.size() == 4);
  CHECK(result.classes[0].where == "tp 0");
  CHECK(result.classes[1].where == "tp 1-5");
  CHECK(result.classes[2].where == "tp 6");
  CHECK(result.classes[3].where == "ranks 14");
}

TEST_CASE("B-5 an exchange that does not fit names the odd rank, also of many") {
  for (const std::int64_t ranks : {7, 65536}) {
    ClassSetting setting({ranks}, ranks);
    const WorldResult result = setting.run([&](RankContext&, RankQuestions&) {
      send_right(setting.group(0), 3, 2, setting.tensor({4}));
    });
    REQUIRE(result.verdict);
    CHECK(result.verdict->kind == VerdictKind::kMismatch);
    CHECK(result.verdict->cause ==
          "the ranks of group dp entered batch with parts that do not fit together");
    if (ranks == 7) CHECK(result.verdict->culprits == std::vector<std::int64_t>{3, 4});
  }
}

TEST_CASE("a batch whose partners on other ranks are unknown is refused") {
  ClassSetting setting({4}, 4);
  const WorldResult result =
      setting.run([&](RankContext&, RankQuestions&) { setting.group(0).batch({}); });
  REQUIRE_FALSE(result.ok());
  CHECK(result.merged().kind() == ErrorKind::kUnsupported);
}

TEST_CASE("B-7 a failure of some ranks is told with all that failed alike") {
  ClassSetting setting({4}, 4);
  const WorldResult result = setting.run([&](RankContext& rank, RankQuestions& questions) {
    questions.ask([](std::int64_t other) { return static_cast<std::uint64_t>(other >= 2); });
    if (rank.rank >= 2) fail(ErrorKind::kValue, "no luck");
    setting.group(0).barrier();
  });
  REQUIRE_FALSE(result.ok());
  const Error error = result.merged();
  CHECK(error.kind() == ErrorKind::kValue);
  CHECK(error.summary() == "no luck");
  REQUIRE(error.find("failed"));
  CHECK(*error.find("failed") == "ranks 2,3");
  CHECK(result.verdict->kind == VerdictKind::kRankFailed);
}

TEST_CASE("a world by class is told of the mesh that its groups lie on") {
  ClassSetting setting({2}, 2);
  setting.options.layout = nullptr;
  CHECK_THROWS_WITH_AS(run_world(setting.options, [](RankContext&) {}),
                       doctest::Contains("the world has no mesh"), Error);
}

TEST_CASE("more classes than are allowed are refused") {
  ClassSetting setting({64}, 64);
  setting.options.most_classes = 10;
  const auto ask = [&](RankContext&, RankQuestions& questions) {
    questions.ask([](std::int64_t rank) { return static_cast<std::uint64_t>(rank); });
  };
  CHECK_THROWS_AS(setting.run(ask), Error);
}

}  // namespace
}  // namespace shardlab
