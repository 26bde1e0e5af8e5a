#include "api/parallel.h"

#include <doctest/doctest.h>

#include "sim/world/spmd.h"

namespace shardlab {
namespace {

using Values = std::vector<double>;

std::string placed(const DTensor& x) { return to_string(x.spec()->placements()); }

/// 0, 1, ... over 4.
DTensor numbers(const Dims& shape) {
  Values values(static_cast<std::size_t>(product(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 4;
  return tensor(values, shape);
}

TEST_CASE("column then row: uneven pieces, one reduction forward, one backward") {
  spmd(3, [](RankContext&) {
    const MeshAxis tp{init_mesh({{"tp", 3}}), "tp"};
    Linear up{numbers({5, 2}), numbers({5})}, down{numbers({2, 5}), numbers({2})};
    const DTensor x = numbers({4, 2});
    for (const DTensor& leaf : {up.weight, up.bias, down.weight, down.bias, x}) require_grad(leaf);
    const DTensor single = linear(linear(x, up.weight, up.bias), down.weight, down.bias);
    backward(sum(single));
    const Values expected = read_doubles(single.local());
    const Values gradient = read_doubles(grad_of(up.weight).local());

    const Linear column = column_parameters(up, tp), row = row_parameters(down, tp);
    CHECK(placed(column.weight) == "S(0)");
    CHECK(placed(column.bias) == "S(0)");
    CHECK(placed(row.weight) == "S(1)");
    CHECK(placed(row.bias) == "R");
    CHECK(column.weight.requires_grad());
    const DTensor hidden = column_parallel(x, column, tp);
    CHECK(placed(hidden) == "S(1)");
    const DTensor y = row_parallel(hidden, row, tp);
    CHECK(placed(y) == "R");
    CHECK(read_doubles(y.local()) == expected);
    backward(sum(y));
    CHECK(placed(grad_of(column.weight)) == "S(0)");
    CHECK(read_doubles(full_tensor(grad_of(column.weight)).local()) == gradient);
    CHECK_FALSE(grad_of(x).distributed());
  });
}

TEST_CASE("inputs and outputs are laid out as asked") {
  spmd(2, [](RankContext& rank) {
    const MeshAxis tp{init_mesh({{"tp", 2}}), "tp"};
    const DTensor x = numbers({3, 4});
    CHECK(placed(sequence_parallel(x, tp)) == "S(1)");
    CHECK(placed(sequence_parallel(x, tp, 0)) == "S(0)");
    const DTensor rows = prepare_input(x, tp, Placement::shard(0), Placement::replicate());
    CHECK(rows.shape() == Dims{6, 4});
    const DTensor piece = prepare_output(rows, tp, Placement::shard(-1));
    CHECK_FALSE(piece.distributed());
    CHECK(piece.shape() == Dims{6, 2});
    CHECK(rank.rank < 2);
  });
}

TEST_CASE("parameters are cut by pattern; what matches nothing is refused") {
  CHECK(matches_pattern("layers.0.w1", "layers.*.w1"));
  CHECK(matches_pattern("layers.0.w1", "**w1"));
  CHECK_FALSE(matches_pattern("layers.0.up.w1", "layers.*.w1"));
  CHECK(matches_pattern("layers.0.up.w1", "layers.**.w1"));
  CHECK_FALSE(matches_pattern("w10", "w1"));
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const std::vector<std::pair<std::string, DTensor>> named = {
        {"layers.0.w1", numbers({2, 3})}, {"layers.1.w1", numbers({4, 5})}, {"out", numbers({2})}};
    const auto cut = shard_parameters(named, "layers.*.w1", mesh, "[_, _@tp]");
    CHECK(type_string(cut[0].second) == "f32[2, 3@tp]");
    CHECK(type_string(cut[1].second) == "f32[4, 5@tp]");
    CHECK_FALSE(cut[2].second.distributed());
    CHECK_THROWS_AS(shard_parameters(named, "blocks.*", mesh, "tp=R"), Error);
    CHECK_THROWS_AS(shard_parameters(named, "out", mesh, "[_, _@tp]"), Error);
  });
}

TEST_CASE("a style names its mesh dim") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    CHECK_THROWS_AS(sequence_parallel(numbers({2, 2}), {mesh, "dp"}), Error);
  });
}

}  // namespace
}  // namespace shardlab
