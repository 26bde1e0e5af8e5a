#include <doctest/doctest.h>

#include "plan/state.h"
#include "tests/property/redistribute_case.h"

namespace shardlab {
namespace {

using namespace test;

constexpr std::uint64_t kSeed = 20250608;
constexpr int kCases = 3000;

struct Specs {
  Arena arena;
  const DTensorSpec* source;
  const DTensorSpec* target;
  explicit Specs(const RedistributeCase& one) {
    const MeshLayout* layout = arena.layout({one.mesh, {}, {}});
    const TensorMeta meta = contiguous_meta(one.shape, one.dtype);
    source = arena.spec(layout, one.source, one.source_order, meta);
    target = arena.spec(layout, one.target, one.target_order, meta);
  }
};

/// the ranks of a group see one logical shape: their own coordinate in it does not matter.
bool groups_agree(const Plan& plan) {
  const MeshLayout& layout = *plan.source->layout();
  for (std::size_t step = 0; step < plan.steps.size(); ++step) {
    for (std::int64_t index = 0; index < layout.size(); ++index) {
      Coordinate coordinate = layout.coordinate_at_index(index);
      const Dims mine = logical_shape(plan, step, coordinate);
      coordinate[plan.steps[step].mesh_dims[0]] = 0;
      if (mine != logical_shape(plan, step, coordinate)) return false;
    }
  }
  return true;
}

TEST_CASE("R-3 R-7 every rank of a step's group sees the same logical shape") {
  std::mt19937_64 random(kSeed);
  for (int number = 0; number < kCases; ++number) {
    const RedistributeCase one = draw_case(random);
    INFO("seed " << kSeed << ", case " << number << ": " << one.text());
    const Specs specs(one);
    PlanOptions options;
    options.planner = one.planner;
    const PlanResult result = make_plan(*specs.source, *specs.target, options);
    REQUIRE(std::holds_alternative<Plan>(result));
    REQUIRE(groups_agree(std::get<Plan>(result)));
  }
}

TEST_CASE("R-2 R-36 greedy plans end at the target, and only cut again after undoing") {
  std::mt19937_64 random(kSeed);
  for (int number = 0; number < kCases; ++number) {
    const RedistributeCase one = draw_case(random);
    INFO("seed " << kSeed << ", case " << number << ": " << one.text());
    const Specs specs(one);
    const PlanResult result = plan_greedy(*specs.source, *specs.target, PlanRules::kV2_15);
    const Plan& plan = std::get<Plan>(result);
    REQUIRE(plan.steps.size() <= 2 * one.mesh.size());
    const Placements end = plan.steps.empty() ? one.source : plan.steps.back().after;
    REQUIRE(end == one.target);
    // A second step on a mesh dim follows a replica made to clear nested cuts.
    for (std::size_t later = 0; later < plan.steps.size(); ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        if (plan.steps[earlier].mesh_dims != plan.steps[later].mesh_dims) continue;
        REQUIRE(plan.steps[earlier].to.is_replicate());
        REQUIRE(plan.steps[later].to.is_shard());
      }
    }
  }
}

}  // namespace
}  // namespace shardlab
