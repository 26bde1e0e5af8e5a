// Whole values from pieces that are written down by hand.
#include "sim/verify/global_value.h"

#include <doctest/doctest.h>

#include <cmath>

#include "mesh/local_shape.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/plan/plan_support.h"

using namespace shardlab;

namespace {

struct Whole {
  GlobalValue value;
  std::vector<std::string> faults;
};

/// `pieces`: the numbers that each rank of the mesh holds, by row-major index.
Whole whole_of(Dims mesh, std::string_view placements, Dims shape, DType dtype,
               const std::vector<std::vector<double>>& pieces, const ShardOrder& order = {}) {
  Arena arena;
  const MeshLayout* layout = arena.layout({.shape = std::move(mesh), .names = {}, .ranks = {}});
  const Placements placed = test::placements(placements);
  const DTensorSpec* spec = arena.spec(
      layout, placed, order.empty() ? default_order(placed) : order, contiguous_meta(shape, dtype));
  std::vector<DTensor> handles;
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    Dims local = local_shape(*spec, layout->coordinate_at_index(static_cast<std::int64_t>(index)));
    if (product(local) != static_cast<std::int64_t>(pieces[index].size())) {
      local = Dims{static_cast<std::int64_t>(pieces[index].size())};
    }
    handles.emplace_back(local_tensor(local, dtype, pieces[index]), spec);
  }
  std::vector<AssemblyFault> faults;
  Whole result{assemble(*spec, handles, faults), {}};
  for (const AssemblyFault& fault : faults) result.faults.push_back(fault.what);
  return result;
}

using Reals = std::vector<double>;
using Integers = std::vector<std::int64_t>;

Reals reduced(std::string_view placements, const std::vector<Reals>& terms) {
  return whole_of({static_cast<std::int64_t>(terms.size())}, placements,
                  {static_cast<std::int64_t>(terms.front().size())}, DType::kF64, terms)
      .value.reals;
}

Integers reduced_integers(std::string_view placements, const std::vector<Reals>& terms) {
  return whole_of({static_cast<std::int64_t>(terms.size())}, placements,
                  {static_cast<std::int64_t>(terms.front().size())}, DType::kI64, terms)
      .value.integers;
}

}  // namespace

TEST_CASE("V-6 pieces lie where the placements say, uneven and empty ones too") {
  const Whole rows = whole_of({4}, "S(0)", {5}, DType::kF32, {{1, 2}, {3, 4}, {5}, {}});
  CHECK(rows.value.reals == Reals{1, 2, 3, 4, 5});
  CHECK(rows.faults.empty());
  const Whole columns = whole_of({2}, "S(1)", {2, 3}, DType::kF32, {{1, 2, 4, 5}, {3, 6}});
  CHECK(columns.value.reals == Reals{1, 2, 3, 4, 5, 6});
}

TEST_CASE("V-6 the order of the cuts decides who holds what") {
  const std::vector<Reals> pieces{{1}, {2}, {3}, {4}};
  CHECK(whole_of({2, 2}, "S(0) S(0)", {4}, DType::kF32, pieces).value.reals == Reals{1, 2, 3, 4});
  CHECK(whole_of({2, 2}, "S(0) S(0)", {4}, DType::kF32, pieces, {1, 0}).value.reals ==
        Reals{1, 3, 2, 4});
}

TEST_CASE("V-6 terms of floats are put together as their reduction says") {
  CHECK(reduced("P(sum)", {{1, -2}, {3, 5}, {-1, 0}}) == Reals{3, 3});
  CHECK(reduced("P(avg)", {{1, -2}, {3, 5}}) == Reals{2, 1.5});
  CHECK(reduced("P(max)", {{-4, -2}, {-3, -5}}) == Reals{-3, -2});
  CHECK(reduced("P(min)", {{4, 2}, {3, 5}}) == Reals{3, 2});
  CHECK(reduced("P(product)", {{4, 2}, {3, -5}}) == Reals{12, -10});
}

TEST_CASE("V-6 the sum of one term is that term, minus zero too") {
  CHECK(std::signbit(reduced("P(sum)", {{-0.0}})[0]));
  CHECK(std::signbit(reduced("P(avg)", {{-0.0}, {-0.0}})[0]));
  CHECK(!std::signbit(reduced("P(sum)", {{-0.0}, {0.0}})[0]));
}

TEST_CASE("V-6 terms of complex numbers multiply as complex numbers do") {
  // (1 + 2i)(3 - i) = 5 + 5i, (2i)(2i) = -4; sums have their parts added.
  const std::vector<Reals> terms{{1, 2, 0, 2}, {3, -1, 0, 2}};
  const auto whole = [&](const char* placement) {
    Arena arena;
    const MeshLayout* layout = arena.layout({.shape = Dims{2}, .names = {}, .ranks = {}});
    const DTensorSpec* spec =
        arena.spec(layout, test::placements(placement), contiguous_meta(Dims{2}, DType::kC128));
    std::vector<DTensor> handles;
    for (const Reals& parts : terms) {
      const Tensor local = empty(plain_device(), Dims{2}, DType::kC128);
      plain_device().write(local, parts.data());
      handles.emplace_back(local, spec);
    }
    std::vector<AssemblyFault> faults;
    return assemble(*spec, handles, faults).reals;
  };
  CHECK(whole("P(product)") == Reals{5, 5, -4, 0});
  CHECK(whole("P(sum)") == Reals{4, 1, 0, 4});
}

TEST_CASE("V-6 a NaN among terms stays one") {
  for (const char* placement : {"P(max)", "P(min)", "P(sum)"}) {
    const Reals result = reduced(placement, {{std::nan(""), 1, 1}, {1, std::nan(""), 2}});
    CHECK(std::isnan(result[0]));
    CHECK(std::isnan(result[1]));
    CHECK_FALSE(std::isnan(result[2]));
  }
}

TEST_CASE("V-6 terms of integers are put together exactly") {
  CHECK(reduced_integers("P(sum)", {{1, -2}, {3, 5}}) == Integers{4, 3});
  CHECK(reduced_integers("P(max)", {{-4, -2}, {-3, -5}}) == Integers{-3, -2});
  CHECK(reduced_integers("P(min)", {{4, 2}, {3, 5}}) == Integers{3, 2});
  CHECK(reduced_integers("P(product)", {{4, 2}, {3, -5}}) == Integers{12, -10});
}

TEST_CASE("V-6 complex numbers have two parts") {
  Arena arena;
  const MeshLayout* layout = arena.layout({.shape = Dims{2}, .names = {}, .ranks = {}});
  const DTensorSpec* spec =
      arena.spec(layout, test::placements("S(0)"), contiguous_meta(Dims{3}, DType::kC64));
  const auto piece = [&](const std::vector<float>& parts) {
    const Dims size{static_cast<std::int64_t>(parts.size() / 2)};
    const Tensor local = empty(plain_device(), size, DType::kC64);
    plain_device().write(local, parts.data());
    return DTensor(local, spec);
  };
  std::vector<AssemblyFault> faults;
  CHECK(assemble(*spec, {piece({1, -1, 2, -2}), piece({3, -3})}, faults).reals ==
        Reals{1, -1, 2, -2, 3, -3});
}

TEST_CASE("V-6 replicas that differ are told, and pieces that are none") {
  CHECK(whole_of({2}, "R", {2}, DType::kF32, {{1, 2}, {1, 2}}).faults.empty());
  const Whole replicas = whole_of({2}, "R", {2}, DType::kF32, {{1, 2}, {1, 3}});
  REQUIRE(replicas.faults.size() == 1);
  CHECK(replicas.faults[0].starts_with("ranks 0 and 1 hold different replicas"));
  const Whole inner = whole_of({2, 2}, "S(0) R", {3}, DType::kI64, {{1, 2}, {1, 2}, {3}, {4}});
  REQUIRE(inner.faults.size() == 1);
  CHECK(inner.faults[0].starts_with("ranks 2 and 3 hold different replicas"));
  const Whole piece = whole_of({2}, "S(0)", {3}, DType::kF32, {{1}, {3}});
  REQUIRE(piece.faults.size() == 1);
  CHECK(piece.faults[0].starts_with("rank 0 holds f32[1], but its piece has shape [2]"));
}

TEST_CASE("a piece of many rows with nothing in them has no stretches") {
  LocalView view{{1'000'000'000, 0}, {}};
  view.dims.resize(2);
  view.dims[0].runs.push_back({0, 1'000'000'000});
  std::int64_t stretches = 0;
  for_each_stretch(view, [&](std::size_t, std::size_t, std::size_t) { ++stretches; });
  CHECK(stretches == 0);
}
