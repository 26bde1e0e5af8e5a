// Parts of values that ranks hold, beside the whole one, by hand.
#include "sim/replay/explain.h"

#include <doctest/doctest.h>

using namespace shardlab;

namespace {

// Numbers that are no multiples of each other.
std::vector<double> numbers(std::size_t count) {
  std::vector<double> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<double>(i * i % 97) + 0.25);
  return all;
}

// [2, 3, 12]: queries, keys and values of two heads of width 2, made at once.
PointPart fused() { return {.shape = {2, 3, 12}, .dtype = DType::kF64, .elements = numbers(72)}; }

PointPart columns(const PointPart& whole, const std::vector<std::size_t>& chosen,
                  std::size_t batches = 2) {
  PointPart part{.shape = whole.shape, .dtype = whole.dtype, .elements = {}};
  part.shape[0] = static_cast<std::int64_t>(batches);
  part.shape[2] = static_cast<std::int64_t>(chosen.size());
  for (std::size_t row = 0; row < batches * 3; ++row) {
    for (const std::size_t column : chosen) {
      part.elements.push_back(whole.elements[row * 12 + column]);
    }
  }
  return part;
}

ValueHeld held(const PointPart& whole, const std::vector<PointPart>& parts) {
  Ranks ranks;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) ranks.push_back(rank);
  std::vector<RankGroups> groups;
  if (parts.size() > 1) {
    groups.push_back(groups_along({static_cast<std::int64_t>(parts.size())}, {"tp"}, 1));
  }
  return explain(whole, 1e-9, parts, ranks, groups).held;
}

}  // namespace

TEST_CASE("B-28 queries, keys and values that were made at once are cut by heads") {
  const PointPart whole = fused();
  const PointPart first = columns(whole, {0, 1, 4, 5, 8, 9});
  const PointPart second = columns(whole, {2, 3, 6, 7, 10, 11});
  CHECK(held(whole, {first, second}) == ValueHeld::kRight);
  // The batch is cut, too.
  CHECK(held(whole, {columns(whole, {0, 1, 4, 5, 8, 9}, 1)}) == ValueHeld::kRight);
  PointPart other = second;
  other.elements[7] += 1;
  CHECK(held(whole, {first, other}) == ValueHeld::kWrong);
  // All columns in another order are another value.
  CHECK(held(whole, {columns(whole, {1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})}) == ValueHeld::kWrong);
}

TEST_CASE("B-28 rows and columns of a matrix may be in another order, and boxes are cut") {
  const PointPart whole{.shape = {4, 3}, .dtype = DType::kF64, .elements = numbers(12)};
  const auto row = [&](std::size_t at) {
    return std::vector<double>(whole.elements.begin() + static_cast<std::ptrdiff_t>(3 * at),
                               whole.elements.begin() + static_cast<std::ptrdiff_t>(3 * at + 3));
  };
  PointPart rows{.shape = {2, 3}, .dtype = DType::kF64, .elements = row(3)};
  const std::vector<double> more = row(1);
  rows.elements.insert(rows.elements.end(), more.begin(), more.end());
  CHECK(held(whole, {rows}) == ValueHeld::kRight);
  rows.elements[5] += 0.5;
  CHECK(held(whole, {rows}) == ValueHeld::kWrong);
}

TEST_CASE("B-28 one number has no factor but those of ranks") {
  const auto number = [](double value) {
    return PointPart{.shape = {}, .dtype = DType::kF64, .elements = {value}};
  };
  CHECK(held(number(3), {number(4.1), number(4.1)}) == ValueHeld::kWrong);
  CHECK(held(number(3), {number(6), number(6)}) == ValueHeld::kScaled);
  CHECK(held(number(3), {number(1), number(2)}) == ValueHeld::kTerms);
  // Several numbers have one.
  const auto two = [](double a, double b) {
    return PointPart{.shape = {2}, .dtype = DType::kF64, .elements = {a, b}};
  };
  CHECK(held(two(3, 5), {two(4.2, 7), two(4.2, 7)}) == ValueHeld::kScaled);
  CHECK(held(two(3, 5), {two(4.2, 8), two(4.2, 8)}) == ValueHeld::kWrong);
}

TEST_CASE("B-28 uneven pieces make the whole, in whichever order their lengths are") {
  const PointPart whole{.shape = {10, 3}, .dtype = DType::kF64, .elements = numbers(30)};
  const auto rows = [&](std::size_t begin, std::size_t end) {
    PointPart part = whole;
    part.shape[0] = static_cast<std::int64_t>(end - begin);
    part.elements.assign(whole.elements.begin() + static_cast<std::ptrdiff_t>(3 * begin),
                         whole.elements.begin() + static_cast<std::ptrdiff_t>(3 * end));
    return part;
  };
  const std::vector<std::vector<std::size_t>> cuts = {
      {0, 4, 7, 10}, {0, 4, 8, 10}, {0, 1, 6, 10}, {0, 5, 5, 10}};
  for (const std::vector<std::size_t>& cut : cuts) {
    CAPTURE(cut[1]);
    const std::vector<PointPart> parts = {rows(cut[0], cut[1]), rows(cut[1], cut[2]),
                                          rows(cut[2], cut[3])};
    CHECK(held(whole, parts) == ValueHeld::kRight);
    CHECK_FALSE(missing_element(whole, 1e-9, parts));
    // Two ranks hold the second piece.
    const auto missing = missing_element(whole, 1e-9, {parts[0], parts[1], parts[1]});
    REQUIRE(missing.has_value());
    CHECK(*missing == Dims{static_cast<std::int64_t>(cut[2]), 0});
  }
}

// The first place that is tried agrees in one element, up to 0.1.
TEST_CASE("B-28 the error of a piece is that of its place, and of no place that did not fit") {
  const PointPart whole{.shape = {6}, .dtype = DType::kF64, .elements = {1.1, 9, 5, 1, 2, 3}};
  const PointPart part{.shape = {3}, .dtype = DType::kF64, .elements = {1, 2, 3}};
  const Explained found = explain(whole, 0.2, {part}, {0}, {});
  CHECK(found.held == ValueHeld::kRight);
  CHECK(found.off == 0);
  // Two places fit: the nearer one is the piece's.
  const PointPart twice{.shape = {4}, .dtype = DType::kF64, .elements = {1, 2, 1.1, 2.1}};
  const PointPart pair{.shape = {2}, .dtype = DType::kF64, .elements = {1, 2.01}};
  CHECK(explain(twice, 0.2, {pair}, {0}, {}).off == doctest::Approx(0.01 / 2.1));
}

TEST_CASE("B-28 a box of uneven cuts of two dims is a piece") {
  const PointPart whole{.shape = {10, 10}, .dtype = DType::kF64, .elements = numbers(100)};
  PointPart part{.shape = {3, 3}, .dtype = DType::kF64, .elements = {}};
  for (const std::size_t row : {4, 5, 6}) {
    for (const std::size_t column : {4, 5, 6}) {
      part.elements.push_back(whole.elements[row * 10 + column]);
    }
  }
  CHECK(held(whole, {part}) == ValueHeld::kRight);
  part.elements[4] += 1;
  CHECK(held(whole, {part}) != ValueHeld::kRight);
}

TEST_CASE("B-28 groups of grids have no name, and those of typed mesh dims theirs") {
  RecordedProgram program;
  program.ranks = 4;
  program.meshes = {{.names = {"all"}, .shape = {4}, .ranks = {}, .part = {}}};
  const std::vector<Ranks> along_dp = {{0, 2}, {1, 3}};
  const auto found = [&] {
    const std::vector<RankGroups> all = groups_of(program);
    return *std::ranges::find(all, along_dp, &RankGroups::groups);
  };
  CHECK(found().name == "groups such as ranks 0, 2");
  CHECK_FALSE(found().of_mesh);
  program.events.emplace_back();
  program.events.back().types = {{.dim = "dp", .of = {{2, 2}}, .type = {}},
                                 {.dim = "tp", .of = {{2, 1}}, .type = {}}};
  CHECK(found().name == "dp");
  CHECK(found().of_mesh);
}
