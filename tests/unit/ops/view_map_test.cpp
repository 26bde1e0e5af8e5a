#include "ops/shape/view_map.h"

#include <doctest/doctest.h>

namespace shardlab {
namespace {

using Kind = DimSource::Kind;

DimSource split(Dims inputs, Dims group, std::size_t part) {
  return {Kind::kSplit, std::move(inputs), std::move(group), part};
}
DimSource flatten(Dims inputs) { return {Kind::kFlatten, std::move(inputs), {}, 0}; }
DimSource input(std::int64_t dim) { return DimSource::input(dim); }
DimSource fresh() { return DimSource::fresh(); }

TEST_CASE("a reshape is cut into groups of equal element counts") {
  struct Row {
    Dims from, to;
    ViewMap map;
  };
  const Row rows[] = {
      {{2, 3, 4}, {2, 12}, {input(0), flatten({1, 2})}},
      {{2, 3}, {3, 2}, {split({0, 1}, {3, 2}, 0), split({0, 1}, {3, 2}, 1)}},
      {{24},
       {2, 3, 4},
       {split({0}, {2, 3, 4}, 0), split({0}, {2, 3, 4}, 1), split({0}, {2, 3, 4}, 2)}},
      {{8, 1, 16}, {8, 16}, {input(0), input(2)}},
      {{8, 16}, {1, 8, 16, 1}, {fresh(), input(0), input(1), fresh()}},
      {{6, 4}, {2, 1, 3, 4}, {split({0}, {2, 3}, 0), fresh(), split({0}, {2, 3}, 1), input(1)}},
      {{}, {1, 1}, {fresh(), fresh()}},
      {{1, 1}, {}, {}},
      {{7}, {7}, {input(0)}},
  };
  for (const Row& row : rows) CHECK(map_reshape(row.from, row.to) == row.map);
}

TEST_CASE("sizes of zero map to nothing and never hang a reshape") {
  CHECK(map_reshape(Dims{0, 4}, Dims{0, 4}) == ViewMap{fresh(), input(1)});
  CHECK(map_reshape(Dims{0, 4}, Dims{0}) == ViewMap{fresh()});
  CHECK(map_reshape(Dims{0}, Dims{0, 4}) == ViewMap{fresh(), fresh()});
  CHECK(map_reshape(Dims{0, 4}, Dims{0, 2, 2}) ==
        ViewMap{fresh(), split({1}, {2, 2}, 0), split({1}, {2, 2}, 1)});
  CHECK(map_reshape(Dims{0, 4}, Dims{4, 0}).size() == 2);
  CHECK(map_reshape(Dims{3, 0, 5}, Dims{0}).size() == 1);
}

TEST_CASE("expand, repeat, squeeze and unsqueeze name the input dim of each output dim") {
  CHECK(map_expand(Dims{1, 4}, Dims{2, 3, -1}) ==
        ViewMap{fresh(), {Kind::kBroadcast, {0}, {}, 0}, input(1)});
  CHECK(map_repeat(2, Dims{2, 1, 3}) == ViewMap{fresh(), input(0), {Kind::kRepeat, {1}, {}, 0}});
  CHECK(map_remove(3, Dims{1}) == ViewMap{input(0), input(2)});
  CHECK(map_unsqueeze(2, 1) == ViewMap{input(0), fresh(), input(1)});
  CHECK(map_permute(Dims{2, 0, 1}) == ViewMap{input(2), input(0), input(1)});
  CHECK(map_view_as_real(Dims{3, 4}) ==
        ViewMap{input(0), split({1}, {4, 2}, 0), split({1}, {4, 2}, 1)});
}

}  // namespace
}  // namespace shardlab
