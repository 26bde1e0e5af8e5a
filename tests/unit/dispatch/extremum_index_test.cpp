// argmax and argmin if ranks share the dim: candidates are exchanged, not the tensor.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab::test {
namespace {

using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The first of the best ones, counted by a plain loop over `count` values at a distance of `step`.
std::int64_t first_best(const double* values, std::int64_t count, std::int64_t step, double sign) {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double now = values[best * step], next = values[i * step];
    if (std::isnan(now)) break;
    if (std::isnan(next) || sign * next > sign * now) best = i;
  }
  return best;
}

Values expected(const Values& x, std::int64_t rows, std::int64_t columns,
                std::optional<std::int64_t> dim, double sign) {
  Values result;
  const auto add = [&](std::int64_t start, std::int64_t count, std::int64_t step) {
    result.push_back(static_cast<double>(first_best(x.data() + start, count, step, sign)));
  };
  if (!dim) add(0, rows * columns, 1);
  for (std::int64_t i = 0; dim == 0 && i < columns; ++i) add(i, rows, columns);
  for (std::int64_t i = 0; dim == 1 && i < rows; ++i) add(i * columns, columns, 1);
  return result;
}

// Few different values, so that most are equal to others; some NaN and infinities.
Values values_with_ties(std::int64_t count, double rare) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 5 + 2) % 4));
  if (count > 3) values[static_cast<std::size_t>(count * 2 / 3)] = rare;
  if (count > 8) values[static_cast<std::size_t>(count - 2)] = rare;
  return values;
}

struct Cut {
  Dims mesh;
  const char* placements;
};
const Cut kCuts[] = {
    {{4}, "R"},         {{4}, "S(0)"},           {{4}, "S(1)"},
    {{3}, "P(sum)"},    {{2, 2}, "S(0) S(1)"},   {{2, 3}, "S(0) S(0)"},
    {{2, 2}, "S(1) R"}, {{2, 2}, "S(1) P(sum)"}, {{2, 2}, "SS(0,2) S(0)"},
};

void check_search(OpMesh& mesh, const char* placements, Dims shape, double rare) {
  const Values values = values_with_ties(shape[0] * shape[1], rare);
  const DTensor x = mesh.place(placements, shape, values);
  for (const double sign : {1.0, -1.0}) {
    const char* op = sign > 0 ? "aten::argmax" : "aten::argmin";
    CHECK(whole(ops().one(op, {x})) == expected(values, shape[0], shape[1], std::nullopt, sign));
    for (const std::int64_t dim : {0, 1}) {
      CAPTURE(dim);
      const Values wanted = expected(values, shape[0], shape[1], dim, sign);
      CHECK(whole(ops().one(op, {x, dim})) == wanted);
      const DTensor kept = ops().one(op, {x, dim - 2, true});
      CHECK(whole(kept) == wanted);
      CHECK(kept.shape() == (dim == 0 ? Dims{1, shape[1]} : Dims{shape[0], 1}));
    }
  }
}

TEST_CASE(
    "argmax and argmin agree with one device for every cut, uneven and empty pieces, ties, NaN") {
  for (const Cut& cut : kCuts) {
    CAPTURE(cut.placements);
    OpMesh mesh(cut.mesh);
    mesh.run([&](RankContext&) {
      for (const Dims& shape : {Dims{7, 3}, Dims{1, 5}, Dims{5, 2}, Dims{8, 4}}) {
        for (const double rare : {3.0, kNan, kInfinity, -kInfinity}) {
          CAPTURE(shape[0]);
          CAPTURE(rare);
          const bool pending = std::string_view(cut.placements).find('P') != std::string_view::npos;
          if (pending && !std::isfinite(rare)) continue;  // its terms are not
          check_search(mesh, cut.placements, shape, rare);
        }
      }
    });
  }
}

TEST_CASE("argmax gathers a value and an index of each piece, never the tensor") {
  OpMesh mesh({2, 4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1) S(0)", {1000, 6}, values_with_ties(6000, 9));
    Seen seen;
    const DTensor rows = ops().one("aten::argmax", {x, 0});
    REQUIRE(seen.collectives.size() == 2);
    for (const CollectiveRecord& record : seen.collectives) {
      CHECK(record.kind == CollectiveKind::kAllGather);
      CHECK(record.input_shape == Dims{1, 3});
    }
    CHECK(seen.moves.empty());
    CHECK(rows.spec()->placement(0) == Placement::shard(0));
    CHECK(rows.spec()->placement(1).is_replicate());
    ops().one("aten::argmax", {x});
    CHECK(seen.collectives.size() == 6);
    CHECK(seen.collectives.back().input_shape == Dims{1});
  });
}

TEST_CASE("argmax of integers, bool and half precision counts as the others do") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    for (const DType dtype : {DType::kI64, DType::kBool, DType::kBF16, DType::kU8}) {
      CAPTURE(to_string(dtype));
      const DTensor x = mesh.place("S(0)", {5, 2}, {0, 0, 1, 0, 0, 1, 1, 1, 0, 0}, dtype);
      CHECK(whole(ops().one("aten::argmax", {x, 0})) == Values{1, 2});
      CHECK(whole(ops().one("aten::argmin", {x})) == Values{0});
    }
  });
}

TEST_CASE("argmax without elements to choose from is refused, with the call named") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {0, 2}, {});
    CHECK(kind_of([&] { ops().one("aten::argmax", {x, 0}); }) == ErrorKind::kValue);
    CHECK(kind_of([&] { ops().one("aten::argmax", {x}); }) == ErrorKind::kValue);
  });
}

TEST_CASE("ranks outside of the mesh take part in no gather of argmax") {
  OpMesh mesh({2}, {1, 3}, 4);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 5, 5});
    Seen seen;
    const DTensor best = ops().one("aten::argmax", {x});
    CHECK(best.shape() == Dims{});
    CHECK(seen.collectives.size() == (rank.rank % 2 == 1 ? 2 : 0));
    if (rank.rank % 2 == 1) CHECK(whole(best) == Values{1});
  });
}

}  // namespace
}  // namespace shardlab::test
