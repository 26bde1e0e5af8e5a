#include "api/parallel.h"

#include <doctest/doctest.h>

#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::whole;
using Values = std::vector<double>;

const Placement kWhole = Placement::replicate();

TEST_CASE("a column-wise layer, then a row-wise one: one sum at the end, uneven widths") {
  spmd(3, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 3}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {2, 2}), mesh, "tp=R");
    const LinearWeights up = column_wise_weights(
        {tensor({1, 0, 0, 1, 1, 1, 2, 0}, {4, 2}), tensor({0, 0, 0, 1}, {4})}, mesh, "tp");
    const LinearWeights down =
        row_wise_weights({tensor({1, 1, 1, 1}, {1, 4}), tensor({10}, {1})}, mesh, "tp");
    CHECK(up.weight.spec()->placement(0) == Placement::shard(0));
    CHECK(down.weight.spec()->placement(0) == Placement::shard(1));
    const DTensor hidden = column_wise(x, up, "tp");
    CHECK(hidden.spec()->placement(0) == Placement::shard(1));
    CHECK(whole(hidden) == Values{1, 2, 3, 3, 3, 4, 7, 7});
    const DTensor y = row_wise(hidden, down, "tp");
    CHECK(y.spec()->placement(0) == kWhole);
    CHECK(whole(y) == Values{19, 31});
  });
}

TEST_CASE("sequence parallel: rows in, rows out, the layers between them gather and scatter") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3}, {1, 3, 1}), mesh, "tp=R");
    const DTensor rows = sequence_parallel(x, "tp");
    CHECK(rows.spec()->placement(0) == Placement::shard(1));
    const LinearWeights up = column_wise_weights({tensor({1, 2}, {2, 1}), {}}, mesh, "tp");
    const LinearWeights down = row_wise_weights({tensor({1, 1}, {1, 2}), {}}, mesh, "tp");
    const DTensor y = row_wise(column_wise(rows, up, "tp"), down, "tp", Placement::shard(1));
    CHECK(y.spec()->placement(0) == Placement::shard(1));
    CHECK(whole(y) == Values{3, 6, 9});
  });
}

TEST_CASE("a style is about one mesh dim, the others stay") {
  spmd(4, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {2, 2}), mesh, "dp=S(0)");
    const DTensor y = on_mesh_dim(x, "tp", Placement::shard(-1));
    CHECK(y.spec()->placement(0) == Placement::shard(0));
    CHECK(y.spec()->placement(1) == Placement::shard(1));
    CHECK(on_mesh_dim(y, "tp", Placement::shard(1)).is_same(y));
    CHECK_THROWS_AS(on_mesh_dim(x, "pp", kWhole), Error);
    CHECK_THROWS_AS(on_mesh_dim(tensor({1}, {1}), "tp", kWhole), Error);
  });
}

TEST_CASE("gradients go back through the styles") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3}, {3, 1}), mesh, "tp=R");
    LinearWeights up = column_wise_weights({tensor({1, 2, 3}, {3, 1}), {}}, mesh, "tp");
    require_grad(up.weight);
    backward(sum(column_wise(x, up, "tp")));
    CHECK(whole(grad_of(up.weight)) == Values{6, 6, 6});
  });
}

TEST_CASE(
    "a pattern's _ is a size only where a size stands: not in names, nor behind their commas") {
  spmd(4, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"data_parallel", 2}, {"tp", 2}});
    const DTensor w = tensor({1, 2, 3, 4, 5, 6}, {3, 2});
    const auto type_by = [&](const std::string& pattern) {
      return type_string(shard({{"w", w}}, mesh, {{"w", pattern}}).at("w"));
    };
    CHECK(type_by("[_@data_parallel, _]") == "f32[3@data_parallel, 2]");
    CHECK(type_by("[_@(data_parallel,tp), _]") == "f32[3@(data_parallel,tp), 2]");
    CHECK(type_by("[ _, _@tp]") == "f32[3, 2@tp]");
    CHECK(type_by("[3, 2@data_parallel]") == "f32[3, 2@data_parallel]");
    CHECK_THROWS_WITH_AS(type_by("[_, _@tp, _]"),
                         doctest::Contains("has more dims than 'w', f32[3, 2]"), Error);
  });
}

TEST_CASE("parameters are placed by the first pattern that their name matches") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const NamedTensors parameters = {{"layers.0.w1", ones({3, 4})},
                                     {"layers.1.w1", ones({3, 4})},
                                     {"layers.1.w2", ones({4, 3})},
                                     {"norm", ones({4})}};
    const NamedTensors placed =
        shard(parameters, mesh, {{"layers.*.w1", "[_, _@tp]"}, {"layers.*", "[_@tp, _]"}});
    CHECK(placed.at("layers.0.w1").spec()->placement(0) == Placement::shard(1));
    CHECK(placed.at("layers.1.w1").spec()->placement(0) == Placement::shard(1));
    CHECK(placed.at("layers.1.w2").spec()->placement(0) == Placement::shard(0));
    CHECK(placed.at("norm").spec()->is_replicated());
    CHECK_THROWS_AS(shard(parameters, mesh, {{"layer.*", "[_]"}}), Error);
    CHECK_THROWS_AS(shard(parameters, mesh, {{"norm", "[_, _@tp]"}}), Error);
  });
}

}  // namespace
}  // namespace shardlab
