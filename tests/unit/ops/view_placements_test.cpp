#include <doctest/doctest.h>

#include "base/error.h"
#include "mesh/local_shape.h"
#include "ops/view_map.h"

namespace shardlab {
namespace {

Placements placements(std::initializer_list<const char*> texts) {
  Placements result;
  for (const char* text : texts) result.push_back(*parse_placement(text));
  return result;
}

ViewPlacements reshape(const Placements& source, const Dims& from, const Dims& to, const Dims& mesh,
                       ViewPolicy policy = ViewPolicy::kStrict) {
  return propagate_view(source, from, map_reshape(from, to), mesh, policy);
}

TEST_CASE("K-30 flattening a shard behind other dims gives a strided shard") {
  const Dims from{8, 16, 8}, to{128, 8};
  CHECK(reshape(placements({"S(0)"}), from, to, {4}).outputs == placements({"S(0)"}));
  CHECK(reshape(placements({"S(1)"}), from, to, {4}).outputs == placements({"SS(0,8)"}));
  CHECK(reshape(placements({"S(2)"}), from, to, {4}).outputs == placements({"S(1)"}));
  CHECK(reshape(placements({"S(0)", "S(1)"}), from, to, {2, 2}).outputs ==
        placements({"S(0)", "SS(0,4)"}));
  CHECK(reshape(placements({"S(1)", "S(0)"}), from, to, {2, 2}).outputs ==
        placements({"SS(0,8)", "S(0)"}));
  CHECK(reshape(placements({"P(sum)"}), from, to, {4}).outputs == placements({"P(sum)"}));
}

TEST_CASE("K-30 undoing the flatten turns a strided shard plain again") {
  CHECK(reshape(placements({"SS(0,8)"}), {128, 8}, {8, 16, 8}, {4}).outputs ==
        placements({"S(1)"}));
  CHECK(reshape(placements({"S(0)", "SS(0,4)"}), {128, 8}, {8, 16, 8}, {2, 2}).outputs ==
        placements({"S(0)", "S(1)"}));
}

TEST_CASE("K-30 a reshape gathers where a view refuses") {
  const Dims from{8, 16, 8}, to{128, 8};
  const ViewPlacements gathered =
      reshape(placements({"S(1)"}), from, to, {4}, ViewPolicy::kRedistribute);
  CHECK(gathered.inputs == placements({"R"}));
  CHECK(gathered.outputs == placements({"R"}));
  struct Row {
    const char* placement;
    Dims from, to, mesh;
  };
  const Row refused[] = {
      {"S(1)", {8, 1, 16}, {8, 16}, {2}},  // vanishes
      {"S(0)", {6, 4}, {24}, {4}},         // 6 rows do not flatten evenly on 4 ranks
      {"S(0)", {6, 4}, {3, 2, 4}, {2}},    // 3 is not divisible by 2
      {"S(0)", {0, 4}, {0, 4}, {2}},       // nothing to hold on to
  };
  for (const Row& row : refused) {
    CHECK_THROWS_AS(reshape(placements({row.placement}), row.from, row.to, row.mesh), Error);
    CHECK(
        reshape(placements({row.placement}), row.from, row.to, row.mesh, ViewPolicy::kRedistribute)
            .inputs == placements({"R"}));
  }
}

TEST_CASE("expanding a sharded dim of size 1 is refused, also where others gather") {
  const ViewMap map = map_expand(Dims{1, 16}, Dims{8, 16});
  CHECK_THROWS_AS(
      propagate_view(placements({"S(0)"}), Dims{1, 16}, map, Dims{4}, ViewPolicy::kRedistribute),
      Error);
  CHECK(propagate_view(placements({"S(1)"}), Dims{1, 16}, map, Dims{4}, ViewPolicy::kRedistribute)
            .outputs == placements({"S(1)"}));
}

/// Row-major numbers, within the whole tensor, of the elements a rank holds, in its own order.
std::vector<std::int64_t> elements(const DTensorSpec& spec, const Coordinate& coordinate) {
  std::vector<std::int64_t> numbers{0};
  const LocalView view = local_view(spec, coordinate);
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    std::vector<std::int64_t> next;
    for (const std::int64_t number : numbers) {
      for (std::int64_t i = 0; i < view.dims[dim].local_size(); ++i) {
        next.push_back(number * spec.shape()[dim] + view.dims[dim].global_index(i));
      }
    }
    numbers = std::move(next);
  }
  return numbers;
}

struct Draw {
  std::uint64_t state = 7;
  std::size_t below(std::size_t count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % count;
  }
};

TEST_CASE("every view that is accepted gives each rank the elements of its output piece") {
  const Dims shapes[] = {{12},      {2, 6},    {6, 2},       {3, 4},    {4, 3},   {2, 3, 2},
                         {2, 2, 3}, {1, 12},   {12, 1},      {16},      {4, 4},   {2, 8},
                         {8, 2},    {2, 2, 4}, {2, 2, 2, 2}, {4, 2, 2}, {1, 4, 4}};
  const Dims meshes[] = {{2}, {3}, {4}, {2, 2}, {3, 2}, {2, 4}, {2, 2, 2}};
  Arena arena;
  Draw draw;
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const Dims& from = shapes[draw.below(std::size(shapes))];
    const Dims& to = shapes[draw.below(std::size(shapes))];
    if (product(from) != product(to)) continue;
    const Dims& mesh = meshes[draw.below(std::size(meshes))];
    Placements source;
    for (std::size_t i = 0; i < mesh.size(); ++i) {
      const std::size_t dim = draw.below(from.size() + 1);
      source.push_back(dim == from.size() ? Placement::replicate()
                                          : Placement::shard(static_cast<std::int64_t>(dim)));
    }
    const ViewPolicy policy = draw.below(2) == 0 ? ViewPolicy::kStrict : ViewPolicy::kRedistribute;
    ViewPlacements result;
    try {
      result = reshape(source, from, to, mesh, policy);
    } catch (const Error& error) {
      CHECK(policy == ViewPolicy::kStrict);
      CHECK(error.kind() == ErrorKind::kRuntime);
      continue;
    }
    MeshLayout::Init init;
    init.shape = mesh;
    const MeshLayout* layout = arena.layout(init);
    const DTensorSpec& in = *arena.spec(layout, result.inputs, contiguous_meta(from, DType::kF32));
    const DTensorSpec& out = *arena.spec(layout, result.outputs, contiguous_meta(to, DType::kF32));
    for (std::int64_t rank = 0; rank < layout->size(); ++rank) {
      const Coordinate coordinate = layout->coordinate_at_index(rank);
      INFO(to_string(result.inputs), " of [", fmt::format("{}", fmt::join(from, ",")), "] as ",
           to_string(result.outputs), " of [", fmt::format("{}", fmt::join(to, ",")), "] on ",
           layout->text(), ", rank ", rank);
      CHECK(elements(in, coordinate) == elements(out, coordinate));
    }
    ++accepted;
  }
  CHECK(accepted > 1000);
}

}  // namespace
}  // namespace shardlab
