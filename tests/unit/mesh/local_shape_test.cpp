#include "mesh/local_shape.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "mesh/spec.h"

using namespace shardlab;

namespace {

const DTensorSpec* make_spec(Arena& arena, Dims mesh, Dims shape, Placements placements) {
  const MeshLayout* layout = arena.layout({mesh, {}, {}});
  return arena.spec(layout, placements, contiguous_meta(shape, DType::kF32));
}

std::vector<std::int64_t> indices_of(const DimMap& map) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < map.local_size(); ++i) indices.push_back(map.global_index(i));
  return indices;
}

}  // namespace

TEST_CASE("W-1 K-1 chunk_of: ceil-sized chunks, short and empty at the end") {
  struct Row {
    std::int64_t length, count;
    std::vector<Chunk> chunks;
  };
  const Row rows[] = {
      {8, 4, {{2, 0}, {2, 2}, {2, 4}, {2, 6}}},
      {7, 4, {{2, 0}, {2, 2}, {2, 4}, {1, 6}}},
      {5, 4, {{2, 0}, {2, 2}, {1, 4}, {0, 5}}},
      {9, 4, {{3, 0}, {3, 3}, {3, 6}, {0, 9}}},
      {6, 4, {{2, 0}, {2, 2}, {2, 4}, {0, 6}}},
      {2, 4, {{1, 0}, {1, 1}, {0, 2}, {0, 2}}},
      {1, 3, {{1, 0}, {0, 1}, {0, 1}}},
      {10, 3, {{4, 0}, {4, 4}, {2, 8}}},
      {0, 2, {{0, 0}, {0, 0}}},
  };
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.chunks.size(); ++i) {
      CAPTURE(row.length);
      CAPTURE(row.count);
      CAPTURE(i);
      CHECK(chunk_of(row.length, row.count, static_cast<std::int64_t>(i)) == row.chunks[i]);
    }
  }
}

TEST_CASE("K-1 chunk_of refuses coordinates outside the mesh dim and negative lengths") {
  CHECK_THROWS_AS(chunk_of(4, 2, 2), Error);
  CHECK_THROWS_AS(chunk_of(4, 2, -1), Error);
  CHECK_THROWS_AS(chunk_of(-1, 2, 0), Error);
}

TEST_CASE("K-1 chunk_of holds for lengths near 2^63") {
  const std::int64_t length = INT64_MAX;
  CHECK(chunk_of(length, INT64_MAX, INT64_MAX - 1) == Chunk{1, length - 1});
  CHECK(chunk_of(length, 2, 1) == Chunk{length / 2, length / 2 + 1});
}

TEST_CASE("K-1 nested cuts: an empty shard may sit in the middle and starts at the global size") {
  Arena arena;
  const auto* spec = make_spec(arena, {2, 4}, {9}, {Placement::shard(0), Placement::shard(0)});
  const std::int64_t sizes[] = {2, 2, 1, 0, 1, 1, 1, 1};
  const std::int64_t offsets[] = {0, 2, 4, 9, 5, 6, 7, 8};
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    CAPTURE(rank);
    const Coordinate at = spec->layout()->coordinate_at_index(rank);
    CHECK(local_shape(*spec, at) == Dims{sizes[rank]});
    CHECK(local_offset(*spec, at) == Dims{offsets[rank]});
  }
}

TEST_CASE("W-6 uneven nested shards: S(0)S(0) of 5x3 on (2,3)") {
  Arena arena;
  const auto* spec = make_spec(arena, {2, 3}, {5, 3}, {Placement::shard(0), Placement::shard(0)});
  const std::int64_t sizes[] = {1, 1, 1, 1, 1, 0};
  for (std::int64_t rank = 0; rank < 6; ++rank) {
    CAPTURE(rank);
    CHECK(local_shape(*spec, spec->layout()->coordinate_at_index(rank)) == Dims{sizes[rank], 3});
  }
}

TEST_CASE("W-6 uneven nested shards: S(0)S(0) of 7x3 on (2,2)") {
  Arena arena;
  const auto* spec = make_spec(arena, {2, 2}, {7, 3}, {Placement::shard(0), Placement::shard(0)});
  const std::int64_t sizes[] = {2, 2, 2, 1};
  const std::int64_t offsets[] = {0, 2, 4, 6};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const Coordinate at = spec->layout()->coordinate_at_index(rank);
    CHECK(local_shape(*spec, at) == Dims{sizes[rank], 3});
    CHECK(local_offset(*spec, at) == Dims{offsets[rank], 0});
  }
}

TEST_CASE("local shapes follow the shard order: later cuts act on the earlier cut's size") {
  // mesh [4,2], 9 rows, order 1 then 0: the first row of the layout facts where the strided form
  // and the order own different rows.
  Arena arena;
  const MeshLayout* layout = arena.layout({{4, 2}, {}, {}});
  const Placements both{Placement::shard(0), Placement::shard(0)};
  const auto* spec = arena.spec(layout, both, {1, 0}, contiguous_meta(Dims{9, 6}, DType::kF32));
  const std::int64_t sizes[] = {2, 1, 2, 1, 1, 1, 0, 1};
  const std::int64_t offsets[] = {0, 5, 2, 6, 4, 7, 9, 8};
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    CAPTURE(rank);
    const Coordinate at = layout->coordinate_at_index(rank);
    CHECK(local_shape(*spec, at) == Dims{sizes[rank], 6});
    CHECK(local_offset(*spec, at) == Dims{offsets[rank], 0});
  }
}

TEST_CASE("K-19 a strided shard owns part i of every chunk") {
  struct Row {
    std::int64_t size, count, factor;
    std::vector<std::vector<std::int64_t>> indices;
  };
  const Row rows[] = {
      {9, 2, 3, {{0, 1, 3, 4, 6, 7}, {2, 5, 8}}},
      {7, 2, 3, {{0, 1, 3, 4, 6}, {2, 5}}},
      {3, 4, 2, {{0, 2}, {1}, {}, {}}},
      {1, 4, 3, {{0}, {}, {}, {}}},
      {0, 2, 2, {{}, {}}},
      {11, 2, 2, {{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10}}},
      {16, 4, 3, {{0, 1, 6, 7, 12}, {2, 3, 8, 9, 13}, {4, 5, 10, 11, 14}, {15}}},
  };
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.indices.size(); ++i) {
      CAPTURE(row.size);
      CAPTURE(row.factor);
      CAPTURE(i);
      const Cut cut{Placement::strided_shard(0, row.factor), row.count,
                    static_cast<std::int64_t>(i)};
      CHECK(indices_of(dim_map(row.size, std::span(&cut, 1))) == row.indices[i]);
    }
  }
}

TEST_CASE("K-19 strided pieces of a spec: size, first index, and the global size when empty") {
  Arena arena;
  const auto* spec =
      make_spec(arena, {4, 2}, {9, 6}, {Placement::strided_shard(0, 2), Placement::shard(0)});
  const std::int64_t sizes[] = {2, 1, 2, 1, 1, 1, 1, 0};
  const std::int64_t offsets[] = {0, 5, 2, 6, 4, 7, 8, 9};
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    CAPTURE(rank);
    const Coordinate at = spec->layout()->coordinate_at_index(rank);
    CHECK(local_shape(*spec, at) == Dims{sizes[rank], 6});
    CHECK(local_offset(*spec, at) == Dims{offsets[rank], 0});
  }
}

TEST_CASE("a huge split factor costs no more than the elements there are") {
  const Cut cut{Placement::strided_shard(0, INT64_MAX), 2, 0};
  CHECK(indices_of(dim_map(3, std::span(&cut, 1))) == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("two strided cuts of many chunks are read in one pass; runs have a limit") {
  const std::int64_t chunks = 100'000;
  const Cut cuts[] = {{Placement::strided_shard(0, chunks), 2, 1},
                      {Placement::strided_shard(0, chunks / 2), 2, 0}};
  const DimMap map = dim_map(4 * chunks, cuts);
  // The first keeps 2 3 6 7 .. of 0 1 2 3 | 4 5 6 7 | .., the second the first half of each 4.
  CHECK(map.runs.size() == static_cast<std::size_t>(chunks / 2));
  CHECK(map.runs[1].offset == 10);
  CHECK(map.local_size() == chunks);
  const Cut many{Placement::strided_shard(0, std::int64_t{1} << 31), 2, 0};
  CHECK_THROWS_WITH_AS(dim_map(std::int64_t{1} << 33, std::span(&many, 1)),
                       doctest::Contains("more than 16777216 runs"), Error);
  const Cut none{Placement::strided_shard(0, 0), 2, 0};
  CHECK_THROWS_WITH_AS(dim_map(3, std::span(&none, 1)),
                       doctest::Contains("the split factor of a strided shard is 0"), Error);
}

TEST_CASE("local strides keep the memory order of the global dims") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2}, {}, {}});
  const TensorMeta columns{{7, 4}, {1, 7}, DType::kF32};
  const auto* by_rows = arena.spec(layout, {Placement::shard(0)}, columns);
  CHECK(local_stride(*by_rows, {0}) == Dims{1, 4});
  CHECK(local_stride(*by_rows, {1}) == Dims{1, 3});
  const TensorMeta middle{{4, 8, 4}, {32, 1, 8}, DType::kF32};
  const auto* last = arena.spec(layout, {Placement::shard(2)}, middle);
  CHECK(local_stride(*last, {0}) == Dims{16, 1, 8});
  const auto* whole = arena.spec(layout, {Placement::replicate()}, columns);
  CHECK(local_meta(*whole, {1}) == columns);
}

TEST_CASE("global_meta puts even pieces together, strides outside the cut dim scaled") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 2}, {}, {}});
  const TensorMeta local{{2, 3}, {1, 2}, DType::kF32};
  const TensorMeta whole = global_meta(*layout, {Placement::shard(0), Placement::partial()}, local);
  CHECK(whole == TensorMeta{{4, 3}, {1, 4}, DType::kF32});
  CHECK_THROWS_AS(global_meta(*layout, {Placement::shard(2), Placement::replicate()}, local),
                  Error);
}

TEST_CASE("local_view lists the global index runs of every dim") {
  Arena arena;
  const auto* spec =
      make_spec(arena, {2, 2}, {5, 3}, {Placement::shard(0), Placement::strided_shard(1, 2)});
  const LocalView view = local_view(*spec, {1, 0});
  CHECK(view.global_shape == Dims{5, 3});
  CHECK(indices_of(view.dims[0]) == std::vector<std::int64_t>{3, 4});
  CHECK(indices_of(view.dims[1]) == std::vector<std::int64_t>{0, 2});
  CHECK(local_view(*spec, {0, 1}).dims[1].runs == InlineVector<IndexRun, 2>{{1, 1}});
}

TEST_CASE("K-19 strided shards and their order own the same pieces, as every rank by itself says") {
  Arena arena;
  int alike = 0, other = 0;
  for (const Dims& mesh : {Dims{2, 2}, Dims{3, 2}, Dims{2, 4}, Dims{2, 3, 2}, Dims{3, 1, 5}}) {
    const MeshLayout& layout = *arena.layout({mesh, {}, {}});
    const Placements plain(mesh.size(), Placement::shard(0));
    ShardOrder order = default_order(plain);
    do {
      const OrderedPlacements ordered{plain, order};
      const OrderedPlacements strided{encode_strided(plain, order, mesh), default_order(plain)};
      for (std::int64_t length = 0; length < 40; ++length) {
        bool expected = true;
        for (std::int64_t rank = 0; rank < layout.size(); ++rank) {
          const Coordinate coordinate = layout.coordinate_at_index(rank);
          const auto owned = [&](const OrderedPlacements& cutting) {
            std::vector<Cut> cuts;
            for (const std::size_t dim : cutting_order(cutting.placements, cutting.order, 0)) {
              cuts.push_back({cutting.placements[dim], layout.size(dim), coordinate[dim]});
            }
            return indices_of(dim_map(length, cuts));
          };
          expected = expected && owned(strided) == owned(ordered);
        }
        CAPTURE(to_string(strided.placements));
        CAPTURE(length);
        CHECK(same_pieces(layout, strided, ordered, 0, length) == expected);
        ++(expected ? alike : other);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  CHECK(alike > 100);
  CHECK(other > 50);
}
