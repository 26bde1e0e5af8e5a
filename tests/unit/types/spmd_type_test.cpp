#include "sim/types/spmd_type.h"

#include <doctest/doctest.h>

#include "sim/types/type_view.h"

using namespace shardlab;

namespace {

const SpmdType kTypes[] = {SpmdType::replicated(), SpmdType::same_work(), SpmdType::varying(),
                           SpmdType::term(), SpmdType::piece(1)};

}  // namespace

TEST_CASE("types are printed as they are read, and each is another") {
  for (const SpmdType& type : kTypes) {
    CHECK(parse_spmd_type(to_string(type)) == type);
    for (const SpmdType& other : kTypes) CHECK((type == other) == (&type == &other));
  }
  CHECK(parse_spmd_type("S(-1)") == SpmdType::piece(-1));
  for (const char* text : {"P(max)", "SS(0,2)", "S", "X", ""}) CHECK_FALSE(parse_spmd_type(text));
}

TEST_CASE("a gradient's gradient has the type of the value") {
  const char* const gradients[] = {"P", "I", "V", "R", "S(1)"};
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    CHECK(to_string(gradient_type(kTypes[i])) == gradients[i]);
    CHECK(gradient_type(gradient_type(kTypes[i])) == kTypes[i]);
  }
}

TEST_CASE("replicas of a placement are R where their gradient is a term, else I") {
  CHECK(to_string(dtensor_placement_to_spmd_type(Placement::replicate())) == "I");
  CHECK(to_string(dtensor_placement_to_spmd_type(Placement::replicate(), Placement::partial())) ==
        "R");
  CHECK(to_string(dtensor_placement_to_spmd_type(Placement::shard(2))) == "S(2)");
  CHECK_THROWS_AS(dtensor_placement_to_spmd_type(Placement::partial(ReduceOp::kMax)), Error);
  CHECK_THROWS_AS(dtensor_placement_to_spmd_type(Placement::strided_shard(0, 2)), Error);
  CHECK(spmd_type_to_dtensor_placement(SpmdType::same_work()) == Placement::replicate());
  CHECK_THROWS_AS(spmd_type_to_dtensor_placement(SpmdType::varying()), Error);
}

TEST_CASE("a PartitionSpec names the mesh dims of a tensor dim, outermost first") {
  const auto layout = [](Dims shape) {
    MeshLayout::Init init;
    init.shape = std::move(shape);
    init.names = {"dp", "cp", "tp"};
    return process_arena().layout(std::move(init));
  };
  const TensorType all_varying = tensor_type({SpmdTypes(3, SpmdType::varying())});
  const TensorType type = cut_by(all_varying, {{2, 0}, {}, {1}});
  TensorMeta meta;
  meta.shape = {7, 3, 5};
  CHECK(text_of(type, *layout({2, 2, 4}), meta) ==
        "f32[7@(tp,dp), 3, 5@cp]  dp S(0)[1]  cp S(2)  tp S(0)[0]");
  CHECK(text_of(all_varying, *layout({2, 1, 4})) == "dp V  tp V");
  CHECK_FALSE(placements_of(all_varying));
  CHECK(tensor_type(*placements_of(type), type.order) == type);
  CHECK_THROWS_AS(cut_by(all_varying, {{0}, {0}}), Error);
  CHECK_THROWS_AS(tensor_type({SpmdType::piece(0), SpmdType::piece(0)}), Error);
}

TEST_CASE("V-38 a new cut is the last of its dim, and cuts follow dims that come and go") {
  const SpmdType r = SpmdType::replicated(), v = SpmdType::varying();
  TensorType type = cut_by(tensor_type({v, v, r}), {{}, {1, 0}});
  retype(type, 2, SpmdType::piece(1));
  CHECK(type == cut_by(tensor_type({v, v, v}), {{}, {1, 0, 2}}));
  retype(type, 2, SpmdType::piece(1));
  CHECK(type == cut_by(tensor_type({v, v, v}), {{}, {1, 0, 2}}));
  retype(type, 2, SpmdType::piece(0));
  CHECK(type == cut_by(tensor_type({v, v, v}), {{2}, {1, 0}}));
  shift_cuts(type, 1, true);
  CHECK(type == cut_by(tensor_type({v, v, v}), {{2}, {}, {1, 0}}));
  shift_cuts(type, 0, false);
  CHECK(type == cut_by(tensor_type({v, v, v}), {{}, {1, 0}}));
}

TEST_CASE("V-41 a type is taken to another view of the ranks where each dim has one type") {
  Arena arena;
  const MeshLayout* fine = arena.layout({{2, 2, 2}, {"dp", "cp", "tp"}, {}});
  const MeshLayout* flat = arena.layout({{4, 2}, {"dp_cp", "tp"}, {}});
  const auto on = [](const TensorType& type, const MeshLayout* from, const MeshLayout* to) {
    const auto result = type_on(type, *from, *to);
    return result ? text_of(*result, *to) : "none";
  };
  const auto cut = [](const SpmdTypes& types, const std::vector<std::vector<std::size_t>>& spec) {
    return cut_by(tensor_type(types), spec);
  };
  const SpmdType r = SpmdType::replicated(), i = SpmdType::same_work(), v = SpmdType::varying();
  CHECK(on(tensor_type({r, r, i}), fine, flat) == "dp_cp R  tp I");
  CHECK(on(tensor_type({r, i, i}), fine, flat) == "none");
  CHECK(on(cut({v, v, r}, {{0, 1}}), fine, flat) == "dp_cp S(0)  tp R");
  CHECK(on(cut({v, v, r}, {{1, 0}}), fine, flat) == "none");  // cp cuts first
  CHECK(on(cut({v, v, v}, {{2, 0, 1}}), fine, flat) == "dp_cp S(0)[1]  tp S(0)[0]");
  CHECK(on(cut({v, v, v}, {{0, 2, 1}}), fine, flat) == "none");  // tp in between
  CHECK(on(cut({v, v}, {{1, 0}}), flat, fine) == "dp S(0)[1]  cp S(0)[2]  tp S(0)[0]");
  CHECK(on(tensor_type({SpmdType::term(), r}), flat, fine) == "dp P  cp P  tp R");
  const MeshLayout* alone = arena.layout({{1, 1}, {"dp_cp", "tp"}, {}});
  CHECK(on(tensor_type({r, r, r}), arena.layout({{1, 1, 1}, {"dp", "cp", "tp"}, {}}), alone) == "");
  const MeshLayout* row = arena.layout({{2}, {"tp"}, {}});
  CHECK(on(tensor_type({r, r, i}), fine, row) == "tp I");
}
