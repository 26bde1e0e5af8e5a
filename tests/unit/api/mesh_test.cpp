#include "api/mesh.h"

#include <doctest/doctest.h>

#include "comm/observer.h"
#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"

using namespace shardlab;

namespace {

using test::local_values;
using test::whole;
using Values = std::vector<double>;

const Values kSeven = {0, 1, 2, 3, 4, 5, 6};

DTensor seven() { return tensor(kSeven, {7}); }

}  // namespace

TEST_CASE("K-1 7 rows over 4 ranks: 2, 2, 2, 1; gathered again as they were") {
  spmd(4, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 4}});
    const DTensor x = distribute_tensor(seven(), mesh, {Placement::shard(0)});
    CHECK(type_string(x) == "f32[7@tp]");
    const std::vector<std::vector<double>> pieces = {{0, 1}, {2, 3}, {4, 5}, {6}};
    CHECK(local_values(x) == pieces[static_cast<std::size_t>(rank.rank)]);
    CHECK(local_values(to_local(x)) == pieces[static_cast<std::size_t>(rank.rank)]);
    CHECK(whole(x) == kSeven);
    const DTensor again = from_local(to_local(x), mesh, "tp=S(0)", Dims{7});
    CHECK(again.spec() == x.spec());
    CHECK(whole(again) == kSeven);
  });
}

TEST_CASE("placements as a list, by mesh dim and as a type are the same spec") {
  spmd(4, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 2}});
    const DTensor value = zeros({4, 6});
    const auto spec = [&](std::string_view text) {
      return distribute_tensor(value, mesh, text).spec();
    };
    CHECK(spec("[4, 6@tp]") == spec("tp=S(1)"));
    CHECK(spec("f32[4, 6@tp]") == spec("tp=S(-1), dp=R"));
    CHECK(spec("tp=S(1)") ==
          distribute_tensor(value, mesh, {Placement::replicate(), Placement::shard(-1)}).spec());
    CHECK(type_string(*spec("[4@(tp,dp), 6]")) == "f32[4@(tp,dp), 6]");
  });
}

TEST_CASE("R-64 redistribute by list and by text; dims that are not named keep what they have") {
  spmd(4, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 2}});
    const DTensor x = distribute_tensor(reshape(arange(24), {4, 6}), mesh, "dp=S(0), tp=P(sum)");
    CHECK(type_string(x) == "i64[4@dp, 6]{sum:tp}");
    const DTensor reduced = redistribute(x, "tp=R");
    CHECK(type_string(reduced) == "i64[4@dp, 6]");
    const DTensor turned = redistribute(x, {Placement::shard(1), Placement::shard(0)});
    CHECK(type_string(turned) == "i64[4@tp, 6@dp]");
    const DTensor nested = redistribute(x, "[4@(dp,tp), 6]");
    CHECK(type_string(nested) == "i64[4@(dp,tp), 6]");
    const std::vector<double> want = local_values(to(arange(24), DType::kF64));
    for (const DTensor& moved : {x, reduced, turned, nested}) CHECK(whole(moved) == want);
  });
}

TEST_CASE("R-73 the gradient of a redistribute comes back in the placements of its input") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(seven(), mesh, "tp=S(0)");
    require_grad(x);
    const DTensor whole_x = redistribute(x, "tp=R");
    backward(sum(whole_x * whole_x));
    CHECK(type_string(grad_of(x)) == "f32[7@tp]");
    CHECK(whole(grad_of(x)) == std::vector<double>{0, 2, 4, 6, 8, 10, 12});
  });
}

TEST_CASE("a leaf is distributed to a leaf, what lies so already to itself") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor leaf = seven();
    require_grad(leaf);
    const DTensor x = distribute_tensor(leaf, mesh, "tp=S(0)");
    CHECK(x.requires_grad());
    CHECK(distribute_tensor(x, mesh, "tp=S(0)").impl() == x.impl());
    backward(sum(x * x));
    CHECK(type_string(grad_of(x)) == "f32[7@tp]");
    CHECK_FALSE(grad_of(leaf).defined());
  });
}

TEST_CASE("a tensor that cannot be placed is refused with a fix") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(seven(), mesh, "tp=S(0)");
    CHECK(type_string(distribute_tensor(x, mesh, "tp=R")) == "f32[7]");
    CHECK_THROWS_WITH_AS(redistribute(seven(), "tp=R"), doctest::Contains("is a plain tensor"),
                         Error);
    CHECK_THROWS_WITH_AS(spec_of(seven()), doctest::Contains("f32[7] is a plain tensor; it"),
                         Error);
    CHECK_THROWS_WITH_AS(redistribute(x, "[8@tp]"), doctest::Contains("another shape"), Error);
    CHECK_THROWS_WITH_AS(redistribute(x, "tp=Q"), doctest::Contains("'Q' is not a placement"),
                         Error);
    CHECK_THROWS_WITH_AS(redistribute(x, {Placement::shard(1)}), doctest::Contains("S(1)"), Error);
    const DTensor leaf = seven();
    require_grad(leaf);
    CHECK_THROWS_WITH_AS(distribute_tensor(leaf * leaf, mesh, "tp=R"),
                         doctest::Contains("cannot become a leaf"), Error);
  });
}

TEST_CASE("D-37 ranks outside of a mesh take part with empty pieces") {
  spmd(3, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}}, {2, 0});
    const DTensor x = distribute_tensor(seven(), mesh, "tp=S(0)");
    const std::vector<std::vector<double>> pieces = {{4, 5, 6}, {}, {0, 1, 2, 3}};
    CHECK(local_values(x) == pieces[static_cast<std::size_t>(rank.rank)]);
  });
}

TEST_CASE("a part of a mesh is a mesh of its own on each of its ranks") {
  spmd(5, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 2}});
    const MeshLayout* part = submesh(mesh, {"tp"});
    CHECK(part->text() == "{tp:2}");
    CHECK(part->rank_at_index(0) == (rank.rank == 2 || rank.rank == 3 ? 2 : 0));
    const DTensor mine = full({1}, static_cast<double>(rank.rank));
    const DTensor pair = redistribute(from_local(mine, part, "tp=P(sum)"), "tp=R");
    const std::vector<Values> sums = {{1}, {1}, {5}, {5}, {}};  // rank 4 is outside
    CHECK(local_values(pair) == sums[static_cast<std::size_t>(rank.rank)]);
  });
}

TEST_CASE("M-11 shard dims from the end count in from_local as well") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    CHECK(type_string(from_local(zeros({3, 2}), mesh, {Placement::shard(-1)})) == "f32[3, 4@tp]");
    CHECK(type_string(from_local(zeros({3, 2}), mesh, "tp=S(-2)")) == "f32[6@tp, 2]");
  });
}

TEST_CASE("a call may name its planner, and steps merge over dims that were flattened") {
  class Kinds final : public Observer {
   public:
    void op_begins(const OpSchema&, const OutputSharding&) override {}
    void op_ends() override {}
    void redistribution(const RedistributionRecord&) override {}
    void collective(const CollectiveRecord& record) override { seen.push_back(record.kind); }
    std::vector<CollectiveKind> seen;
  };
  using Seen = std::vector<CollectiveKind>;
  spmd(6, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"x", 2}, {"y", 3}});
    const DTensor rows = distribute_tensor(arange(6), mesh, "x=S(0)");
    const DTensor terms = distribute_tensor(arange(6), mesh, "x=P(sum), y=P(sum)");
    Kinds kinds;
    rank.observer = &kinds;
    rank.mode |= kModeObserve;
    const DTensor moved = redistribute(rows, "x=R, y=S(0)", {.planner = PlannerKind::kBytes});
    CHECK(kinds.seen == Seen{CollectiveKind::kPermute, CollectiveKind::kAllGather});
    const double first = 2 * static_cast<double>(rank.rank % 3);
    CHECK(local_values(moved) == Values{first, first + 1});
    kinds.seen.clear();
    flatten_mesh(mesh, {"y", "x"});
    const DTensor reduced = redistribute(terms, "x=R, y=R");
    CHECK(kinds.seen == Seen{CollectiveKind::kAllReduce});
    CHECK(local_values(reduced) == Values{0, 1, 2, 3, 4, 5});
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
    CHECK_THROWS_AS(flatten_mesh(mesh, {"x", "z"}), Error);
  });
}
