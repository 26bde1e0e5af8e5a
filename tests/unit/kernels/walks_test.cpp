// The walks below all kernels, strided loops and places of pieces in the whole, against plain
// nested loops.
#include <doctest/doctest.h>

#include <set>

#include "kernels/positions.h"
#include "kernels/strided_loop.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Numbers = std::vector<std::int64_t>;

struct Runs {
  std::vector<std::pair<std::int64_t, std::int64_t>> elements;  // byte offsets in both arrays
  int rows = 0;
};

// Two arrays of these strides, of 1 and 4 bytes per element.
Runs walked(const Dims& shape, const Dims& first, const Dims& second) {
  StridedLoop loop(shape);
  loop.add(first, 1);
  loop.add(second, 4);
  Runs runs;
  loop.run([&](std::span<const std::int64_t> offsets, std::span<const std::int64_t> strides,
               std::int64_t count) {
    ++runs.rows;
    for (std::int64_t i = 0; i < count; ++i) {
      runs.elements.emplace_back(offsets[0] + i * strides[0], offsets[1] + i * strides[1] * 4);
    }
  });
  return runs;
}

// (local, global) of every element.
std::vector<std::pair<std::int64_t, std::int64_t>> places(const Dims& shape,
                                                          const LocalView* view) {
  Kernels kernels;
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for_each_run(empty(kernels.device(), shape, DType::kF32), view,
               [&](std::int64_t local, std::int64_t global, std::int64_t count) {
                 for (std::int64_t i = 0; i < count; ++i) found.emplace_back(local + i, global + i);
               });
  return found;
}

}  // namespace

TEST_CASE("a loop visits every element of both arrays once, whatever their strides") {
  struct Case {
    Dims shape, first, second;
  };
  const Case cases[] = {
      {{2, 3}, {3, 1}, {3, 1}},  // both contiguous
      {{2, 3}, {1, 2}, {3, 1}},  // one of them across
      {{2, 3}, {0, 1}, {3, 1}},  // one of them repeated
      {{2, 1, 3, 2}, {6, 99, 2, 1}, {1, 7, 4, 2}},
      {{4}, {-1}, {2}},  // backwards
      {{1, 1}, {5, 5}, {0, 0}},
  };
  for (const Case& at : cases) {
    std::multiset<std::pair<std::int64_t, std::int64_t>> expected;
    std::int64_t count = 1;
    for (const std::int64_t size : at.shape) count *= size;
    for (std::int64_t flat = 0; flat < count; ++flat) {
      std::int64_t rest = flat, a = 0, b = 0;
      for (std::size_t d = at.shape.size(); d-- > 0; rest /= at.shape[d]) {
        a += rest % at.shape[d] * at.first[d];
        b += rest % at.shape[d] * at.second[d] * 4;
      }
      expected.emplace(a, b);
    }
    const Runs runs = walked(at.shape, at.first, at.second);
    CHECK(std::multiset(runs.elements.begin(), runs.elements.end()) == expected);
  }
}

TEST_CASE("dims that lie behind each other in all arrays are one row") {
  CHECK(walked({4, 5, 6}, {30, 6, 1}, {30, 6, 1}).rows == 1);
  CHECK(walked({4, 5, 6}, {30, 6, 1}, {30, 6, 2}).rows > 1);
  CHECK(walked({4, 5}, {1, 4}, {1, 4}).rows == 1);  // both transposed: in memory order
}

TEST_CASE("a loop over nothing calls nobody, over no dims calls once") {
  CHECK(walked({0, 3}, {3, 1}, {3, 1}).rows == 0);
  CHECK(walked({3, 0}, {0, 0}, {0, 0}).rows == 0);
  CHECK(walked({}, {}, {}).elements.size() == 1);
}

TEST_CASE("strides of a broadcast: 0 where a dim is new or repeated") {
  Kernels kernels;
  const Tensor x = kernels.f32({3, 1}, {1, 2, 3});
  CHECK(broadcast_strides(x, Dims{2, 3, 4}) == Dims{0, 1, 0});
  const Tensor turned = x.as_view({{1, 3}, {3, 1}, DType::kF32}, 0);
  CHECK(broadcast_strides(turned, Dims{2, 3}) == Dims{0, 1});
}

TEST_CASE("without a view local and global places are the same") {
  const auto found = places({2, 2}, nullptr);
  REQUIRE(found.size() == 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(found[std::size_t(i)] == std::pair<std::int64_t, std::int64_t>{i, i});
  }
}

TEST_CASE("a piece knows the place of each of its elements, row by row") {
  // Rows 1 and 2, columns 4, 5 and 0 of a whole of 3 x 6.
  const LocalView view{{3, 6}, {{{{1, 2}}}, {{{4, 2}, {0, 1}}}}};
  const auto found = places({2, 3}, &view);
  const Numbers expected = {10, 11, 6, 16, 17, 12};
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[i].first == static_cast<std::int64_t>(i));
    CHECK(found[i].second == expected[i]);
  }
}

TEST_CASE("an empty piece has no places, and outer dims carry over") {
  const LocalView none{{3, 6}, {{}, {{{0, 6}}}}};
  CHECK(places({0, 6}, &none).empty());
  const LocalView cube{{2, 2, 2}, {{{{0, 2}}}, {{{1, 1}}}, {{{0, 2}}}}};
  const auto found = places({2, 1, 2}, &cube);
  REQUIRE(found.size() == 4);
  CHECK(found[0].second == 2);
  CHECK(found[1].second == 3);
  CHECK(found[2].second == 6);
  CHECK(found[3].second == 7);
}
