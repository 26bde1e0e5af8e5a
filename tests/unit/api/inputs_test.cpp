#include "api/inputs.h"

#include <doctest/doctest.h>

#include "api/digests.h"
#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"

using namespace shardlab;

namespace {

using test::whole;

// The input with seed 7, on a mesh of one rank.
std::vector<double> alone(std::string_view name, std::string_view type, const InputRecipe& recipe) {
  std::vector<double> values;
  WorldOptions options;
  options.seed = 7;
  spmd(options, [&](RankContext&) {
    values = read_doubles(make_input(name, type, init_mesh({{"tp", 1}}), recipe).local());
  });
  return values;
}

InputRecipe recipe(std::string init, std::vector<Scalar> arguments = {}, double scale = 1) {
  return {std::move(init), std::move(arguments), scale, {}};
}

}  // namespace

TEST_CASE(
    "X-40 an input has the same numbers however it is placed: 7 rows over 4 ranks, and a sum") {
  const std::vector<double> plain = alone("x", "f32[7, 3]", recipe("randn", {}, 0.5));
  WorldOptions options;
  options.ranks = 4;
  options.seed = 7;
  spmd(options, [&](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", 1}, {"tp", 4}});
    const DTensor x = make_input("x", "f32[7@tp, 3]", mesh, recipe("randn", {0.25}, 2));
    CHECK(type_string(x) == "f32[7@tp, 3]");
    CHECK(x.local().size(0) == (rank.rank < 3 ? 2 : 1));
    CHECK(whole(x) == plain);
    const DTensor terms = make_input("x", "f32[7, 3]{sum:tp}", mesh, recipe("randn", {}, 0.5));
    CHECK(read_doubles(full_tensor(terms).local()) == plain);
    CHECK(whole(make_input("w", "f32[7@tp, 3]", mesh, recipe("randn", {}, 0.5))) != plain);
  });
}

TEST_CASE("inputs are made by rows of their recipes") {
  using Values = std::vector<double>;
  CHECK(alone("x", "f32[3]", recipe("full", {0.5}, 4)) == Values{2, 2, 2});
  CHECK(alone("x", "i64[2, 2]", recipe("arange")) == Values{0, 1, 2, 3});
  CHECK(alone("x", "f32[2, 3]", recipe("eye")) == Values{1, 0, 0, 0, 1, 0});
  CHECK(alone("x", "f32[2]", {"values", {}, 2, {1.5, 3}}) == Values{3, 6});
  for (const double value : alone("x", "i64[40]", recipe("randint", {-2, 3}))) {
    CHECK(value >= -2);
    CHECK(value < 3);
  }
}

TEST_CASE("a recipe that does not say all elements is refused") {
  CHECK_THROWS_WITH_AS(alone("x", "f32[3]", recipe("normal")),
                       doctest::Contains("'normal' is not a way to make the input 'x'"), Error);
  CHECK_THROWS_WITH_AS(alone("x", "i64[3]", recipe("randint", {1})),
                       doctest::Contains("the input 'x': randint needs its high"), Error);
  CHECK_THROWS_AS(alone("x", "f32[3]", {"values", {}, 1, {1.0}}), Error);
}

TEST_CASE("digests want the same values on every rank") {
  const auto print_all = [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", 8}});
    const DTensor x = make_input("x", "f32[8@dp, 16]", mesh);
    print_digests({{"x", x}});
    if (rank.rank == 3) return print_digests({});
    print_digests({{"x", x}});
  };
  CHECK_THROWS_WITH_AS(spmd(8, print_all), doctest::Contains("print_digests: a rank brings"),
                       Error);
}
