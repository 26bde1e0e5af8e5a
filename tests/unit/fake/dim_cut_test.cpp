#include "backends/fake/rank_grid.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

namespace shardlab::fake {
namespace {

TEST_CASE("K-1 pieces of 7 over 4 are 2, 2, 2, 1; of 5 over 4 they are 2, 2, 1, 0") {
  const auto pieces = [](std::int64_t length) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < 4; ++i) sizes.push_back(piece_length(length, {0, 4, 0}, i));
    return sizes;
  };
  CHECK(pieces(7) == std::vector<std::int64_t>{2, 2, 2, 1});
  CHECK(pieces(5) == std::vector<std::int64_t>{2, 2, 1, 0});
  CHECK(pieces(0) == std::vector<std::int64_t>{0, 0, 0, 0});
}

TEST_CASE("K-19 strided pieces are as long as the index runs say") {
  for (std::int64_t length = 0; length < 40; ++length) {
    for (const std::int64_t factor : {1, 2, 3, 7}) {
      for (std::int64_t index = 0; index < 5; ++index) {
        const Cut cut{Placement::strided_shard(0, factor), 5, index};
        CHECK(piece_length(length, {0, 5, factor}, index) ==
              dim_map(length, {&cut, 1}).local_size());
      }
    }
  }
}

TEST_CASE("pieces change at the places of a cut and nowhere else: 13 over 4, then over 3") {
  // Chunks of 4, 4, 4, 1; of 4 over 3: 2, 2, 0; of 1 over 3: 1, 0, 0.
  const DimCut cut{13, {{0, 4, 0}, {1, 3, 0}}};
  std::vector<std::vector<bool>> starts = {std::vector<bool>(4), std::vector<bool>(3)};
  for (const CutPlace& place : places_of(cut)) {
    starts[place.mesh_dim][static_cast<std::size_t>(place.coordinate)] = true;
  }
  CHECK(starts[0] == std::vector<bool>{false, false, false, true});
  CHECK(starts[1] == std::vector<bool>{false, true, true});
}

// A tensor dim cut by some dims of a mesh in some order.
struct Draw {
  std::mt19937 random{17};
  std::int64_t below(std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  }
};

TEST_CASE("cuts of random specs on meshes of up to 4 dims give every rank's local shape") {
  Arena arena;
  Draw draw;
  std::int64_t ranks = 0;
  for (int round = 0; round < 300; ++round) {
    MeshLayout::Init init;
    const std::int64_t ndim = 1 + draw.below(4);
    for (std::int64_t i = 0; i < ndim; ++i) init.shape.push_back(1 + draw.below(5));
    const MeshLayout* layout = arena.layout(std::move(init));
    const Dims shape = {draw.below(20), draw.below(20)};
    Placements placements(layout->ndim());
    for (Placement& placement : placements) {
      const std::int64_t kind = draw.below(4);
      if (kind == 0) continue;
      const std::int64_t dim = draw.below(2);
      placement =
          kind == 3 ? Placement::strided_shard(dim, 1 + draw.below(4)) : Placement::shard(dim);
    }
    const DTensorSpec* spec = arena.spec(layout, placements, contiguous_meta(shape, DType::kF32));
    std::vector<std::size_t> dims(layout->ndim());
    std::iota(dims.begin(), dims.end(), 0);
    for (const DimCut& cut : cuts_of(*layout, shape, placements, spec->order(), dims)) {
      // The tensor dim follows from the first cut.
      const auto dim = static_cast<std::size_t>(placements[cut.steps[0].mesh_dim].dim);
      for (std::int64_t i = 0; i < layout->size(); ++i, ++ranks) {
        const Coordinate coordinate = layout->coordinate_at_index(i);
        CHECK(piece_length(cut, coordinate) == local_shape(*spec, coordinate)[dim]);
      }
    }
  }
  CHECK(ranks > 1000);
}

}  // namespace
}  // namespace shardlab::fake
