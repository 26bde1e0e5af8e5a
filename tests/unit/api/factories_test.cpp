#include "api/factories.h"

#include <doctest/doctest.h>

#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"

using namespace shardlab;

namespace {

using test::whole;

Placements rows() { return {Placement::shard(0)}; }

}  // namespace

TEST_CASE("X-40 randn and rand on a mesh are bitwise the plain ones: 7 rows over 4 ranks") {
  std::vector<double> plain;
  spmd(1, [&](RankContext&) {
    for (const DTensor& x : {randn({7, 4}), rand({7, 4}), randn({5})}) {
      const auto values = read_doubles(x.local());
      plain.insert(plain.end(), values.begin(), values.end());
    }
  });
  spmd(4, [&](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 4}});
    const Factory cut = {.mesh = mesh, .placements = rows()};
    std::vector<double> sharded;
    const DTensor first = randn({7, 4}, cut);
    CHECK(type_string(first) == "f32[7@tp, 4]");
    CHECK(first.local().size(0) == (rank.rank < 3 ? 2 : 1));
    for (const DTensor& x : {first, rand({7, 4}, cut), randn({5}, {.mesh = mesh})}) {
      const auto values = whole(x);
      sharded.insert(sharded.end(), values.begin(), values.end());
    }
    CHECK(sharded == plain);
  });
}

TEST_CASE("zeros, ones, full and arange: values and dtypes, plain and cut 2, 2, 1, 0") {
  spmd(4, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 4}});
    for (const Factory& where : {Factory{}, Factory{.mesh = mesh, .placements = rows()}}) {
      const auto values = [&](const DTensor& x) {
        CHECK(x.distributed() == (where.mesh != nullptr));
        return x.distributed() ? whole(x) : read_doubles(x.local());
      };
      CHECK(values(zeros({5}, where)) == std::vector<double>(5, 0));
      CHECK(values(ones({5}, where)) == std::vector<double>(5, 1));
      CHECK(values(full({5}, 2.5, where)) == std::vector<double>(5, 2.5));
      CHECK(values(arange(5, where)) == std::vector<double>{0, 1, 2, 3, 4});
      CHECK(arange(5, where).dtype() == DType::kI64);
      CHECK(full({5}, 3, where).dtype() == DType::kI64);
      CHECK(zeros({5}, where).dtype() == DType::kF32);
    }
    const DTensor half = ones({5}, {.mesh = mesh, .placements = rows(), .dtype = DType::kBF16});
    CHECK(type_string(half) == "bf16[5@tp]");
    CHECK(half.local().size(0) == std::vector<std::int64_t>{2, 2, 1, 0}[std::size_t(rank.rank)]);
  });
}

TEST_CASE("a factory refuses partial placements, and placements without a mesh") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    CHECK_THROWS_WITH_AS(zeros({4}, {.mesh = mesh, .placements = {Placement::partial()}}),
                         doctest::Contains("can't make a partial value"), Error);
    CHECK_THROWS_WITH_AS(zeros({4}, {.placements = rows()}), doctest::Contains("but no mesh"),
                         Error);
  });
}

TEST_CASE("tensor() takes row-major values and rounds to the dtype") {
  spmd(1, [](RankContext&) {
    const DTensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, DType::kI64);
    CHECK(type_string(x) == "i64[2, 3]");
    CHECK(read_integers(x.local()) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
    CHECK(read_doubles(tensor({0.1}, {}).local())[0] == static_cast<double>(0.1f));
    CHECK_THROWS_WITH_AS(tensor({1, 2}, {3}), doctest::Contains("2 values for the shape [3]"),
                         Error);
  });
}
