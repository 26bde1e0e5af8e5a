#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::SpecMaker;

TEST_CASE("R-41 plans are remembered by source, target and planner") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanCache cache{PlanOptions{}};
  const Plan* const first = &*cache.find(spec("S(0) R"), spec("R R"));
  CHECK(&*cache.find(spec("S(0) R"), spec("R R")) == first);
  CHECK(&*cache.find(spec("S(0) R"), spec("R R"), PlannerKind::kGraph) != first);
  CHECK(&*cache.find(spec("S(0) R"), spec("R R"), PlannerKind::kGreedy) != first);
  CHECK(cache.stats().hits == 1);
  CHECK(cache.stats().misses == 3);
  CHECK(cache.stats().entries == 3);
}

TEST_CASE("X-29 one call forgets all plans") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanCache cache{PlanOptions{}};
  cache.find(spec("S(0) R"), spec("R R"));
  cache.clear();
  CHECK(cache.stats().entries == 0);
  cache.find(spec("S(0) R"), spec("R R"));
  CHECK(cache.stats().misses == 1);
}

TEST_CASE("R-41 a plan that a full cache forgot is valid until as many more were forgotten") {
  PlanCache cache{PlanOptions{}, 8};
  SpecMaker spec({2, 2}, {8, 8, 8, 8});
  const auto find = [&](int from, int to) {
    cache.find(spec(fmt::format("S({}) R", from)), spec(fmt::format("R S({})", to)));
  };
  const auto lives = [&](std::string_view text) {
    bool found = false;
    cache.visit([&](const Plan& plan) { found = found || plan.text() == text; });
    return found;
  };
  const Plan* const first = &*cache.find(spec("S(0) R"), spec("R R"));
  for (int pair = 0; pair < 15; ++pair) find(pair / 4, pair % 4);
  CHECK(cache.stats().entries == 8);
  CHECK(cache.stats().evictions == 8);
  CHECK(first->text() == "S(0)R->RR");
  CHECK(lives("S(0)R->RR"));
  find(3, 3);
  CHECK(cache.stats().evictions == 9);
  CHECK_FALSE(lives("S(0)R->RR"));
}

TEST_CASE("R-41 a plan in use is valid whatever a cache forgets, and is freed after its use") {
  PlanCache cache{PlanOptions{}, 8};
  SpecMaker spec({2, 2}, {8, 8, 8, 8});
  const auto find_others = [&] {
    for (int pair = 0; pair < 16; ++pair) {
      cache.find(spec(fmt::format("S({}) R", pair / 4)), spec(fmt::format("R S({})", pair % 4)));
      cache.find(spec(fmt::format("R S({})", pair / 4)), spec(fmt::format("S({}) R", pair % 4)));
    }
  };
  const auto lives = [&] {
    bool found = false;
    cache.visit([&](const Plan& plan) { found = found || plan.text() == "S(0)R->RR"; });
    return found;
  };
  {
    const InUse<Plan> held = cache.find(spec("S(0) R"), spec("R R"));
    find_others();
    CHECK(cache.stats().evictions > 16);
    CHECK(lives());
    CHECK(held->text() == "S(0)R->RR");
  }
  find_others();
  CHECK_FALSE(lives());
}

TEST_CASE("R-41 thousands of meshes and shapes leave no more plans than twice what a cache holds") {
  constexpr std::size_t kCapacity = 64;
  PlanCache cache{PlanOptions{}, kCapacity};
  std::vector<std::unique_ptr<SpecMaker>> makers;
  const auto living = [&] {
    std::size_t count = 0;
    cache.visit([&](const Plan&) { ++count; });
    return count;
  };
  std::size_t most = 0;
  for (std::int64_t mesh = 1; mesh <= 50; ++mesh) {
    for (std::int64_t rows = 0; rows < 60; ++rows) {
      makers.push_back(std::make_unique<SpecMaker>(Dims{mesh}, Dims{rows, 7}));
      SpecMaker& spec = *makers.back();
      CHECK(cache.find(spec("S(0)"), spec("R"))->text() == "S(0)->R");
      most = std::max(most, living());
    }
  }
  CHECK(cache.stats().misses == 3000);
  CHECK(cache.stats().entries == kCapacity);
  CHECK(most == 2 * kCapacity);
  cache.clear();
  CHECK(living() == 0);
}

TEST_CASE("R-41 plans are visited in the order they were made, forgotten ones among them") {
  SpecMaker spec({2, 2}, {7, 8, 9});
  PlanCache cache{PlanOptions{}, 8};
  std::vector<std::string> made, visited;
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      const std::string source = fmt::format("S({}) R", from), target = fmt::format("R S({})", to);
      made.push_back(cache.find(spec(source), spec(target))->text());
    }
  }
  cache.visit([&](const Plan& plan) { visited.push_back(plan.text()); });
  CHECK(cache.stats().evictions == 1);
  CHECK(visited == made);
}

TEST_CASE("R-24 no plan is an error that names both ends") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanOptions options;
  options.rules = PlanRules::kSeed;
  PlanCache cache{options};
  try {
    cache.find(spec("R R"), spec("R P(max)"), PlannerKind::kGraph);
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kRuntime);
    CHECK(error.summary() == "no plan leads from RR to RP(max): no path from RR to RP(max)");
  }
}

TEST_CASE("R-45 different meshes are refused") {
  SpecMaker one({2, 2}, {8, 8}), other({4}, {8, 8});
  CHECK_THROWS_AS(make_plan(*one("R R"), *other("R"), {}), const Error&);
}

TEST_CASE("R-39 X-34 the planner: greedy for default orders, graph for others whatever the flag") {
  SpecMaker spec({2, 2}, {8, 8});
  const auto planner = [&](const DTensorSpec* from, const PlanOptions& options) {
    return std::get<Plan>(make_plan(*from, *spec("R R"), options)).planner;
  };
  PlanOptions greedy, graph;
  greedy.planner = PlannerKind::kGreedy;
  graph.planner = PlannerKind::kGraph;
  const DTensorSpec* swapped = spec("S(0) S(0)", {{0, {1, 0}}});
  CHECK(planner(spec("S(0) S(0)"), {}) == PlannerKind::kGreedy);
  CHECK(planner(spec("S(0) S(0)"), graph) == PlannerKind::kGraph);
  CHECK(planner(swapped, {}) == PlannerKind::kGraph);
  CHECK(planner(swapped, greedy) == PlannerKind::kGraph);
}

TEST_CASE("R-39 strided shards: graph where they stand for an order, else greedy") {
  SpecMaker spec({2, 2}, {8, 8});
  const auto text = [&](const char* from, const char* to) {
    const PlanResult result = make_plan(*spec(from), *spec(to), {});
    return std::get<Plan>(result).text();
  };
  CHECK(text("SS(0,2) S(0)", "R R") == "S(0)[1]S(0)[0]->RS(0)->RR");
  CHECK(text("SS(0,3) R", "R R") == "SS(0,3)R->RR");
  // 7 rows: rank (2,1) holds none as a strided shard, and row 6 in the order that it represents. As
  // in the reference the plan is that of the order; the executor moves through whole dims.
  SpecMaker uneven({3, 2}, {7, 8});
  const PlanResult result = make_plan(*uneven("SS(0,2) S(0)"), *uneven("R R"), {});
  CHECK(std::get<Plan>(result).planner == PlannerKind::kGraph);
}

TEST_CASE("B-3 threads that share a cache get the same plans") {
  SpecMaker spec({2, 2}, {8, 8, 8, 8});
  PlanCache cache{PlanOptions{}};
  std::vector<const DTensorSpec*> sources;
  for (int dim = 0; dim < 4; ++dim) sources.push_back(spec(fmt::format("S({}) R", dim)));
  const DTensorSpec* target = spec("R R");
  const auto look_up = [&](std::vector<const Plan*>& plans) {
    for (int round = 0; round < 100; ++round) {
      for (const DTensorSpec* source : sources) plans.push_back(&*cache.find(source, target));
    }
  };
  std::vector<const Plan*> mine, theirs;
  std::thread other(look_up, std::ref(theirs));
  look_up(mine);
  other.join();
  CHECK(mine == theirs);
  CHECK(cache.stats().entries == 4);
  CHECK(cache.stats().hits + cache.stats().misses == 800);
}

}  // namespace
}  // namespace shardlab
