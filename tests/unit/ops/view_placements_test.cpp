#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "mesh/local_shape.h"
#include "ops/shape/view_map.h"

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
      {"S(0)", {0, 4}, {0, 4}, {2}},       // no elements to keep in place
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

struct Views {
  Draw draw;
  Arena arena;

  /// A shape of `numel` elements, its primes spread over up to four dims.
  Dims shape_of(std::int64_t numel) {
    Dims shape(1 + draw.below(4), 1);
    for (std::int64_t prime = 2; numel > 1; ++prime) {
      for (; numel % prime == 0; numel /= prime) shape[draw.below(shape.size())] *= prime;
    }
    return shape;
  }

  Placement placement(std::size_t ndim) {
    const auto dim = static_cast<std::int64_t>(draw.below(ndim));
    const std::size_t kind = draw.below(8);
    if (kind == 0) return Placement::replicate();
    if (kind < 6) return Placement::shard(dim);
    return Placement::strided_shard(dim, static_cast<std::int64_t>(1 + draw.below(6)));
  }

  Placements placements_of(std::size_t ndim, std::size_t count) {
    Placements result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(placement(ndim));
    return result;
  }

  /// Whether every rank's elements of the input are its elements of the output, in this order.
  bool same(const ViewPlacements& view, const Dims& from, const Dims& to, const Dims& mesh) {
    MeshLayout::Init init;
    init.shape = mesh;
    const MeshLayout* layout = arena.layout(init);
    const DTensorSpec& in = *arena.spec(layout, view.inputs, contiguous_meta(from, DType::kF32));
    const DTensorSpec& out = *arena.spec(layout, view.outputs, contiguous_meta(to, DType::kF32));
    for (std::int64_t rank = 0; rank < layout->size(); ++rank) {
      const Coordinate coordinate = layout->coordinate_at_index(rank);
      if (elements(in, coordinate) != elements(out, coordinate)) return false;
    }
    return true;
  }
};

std::string view_text(const Placements& source, const Dims& from, const Dims& to,
                      const Dims& mesh) {
  return fmt::format("{} of [{}] as [{}] on [{}]", to_string(source), fmt::join(from, ","),
                     fmt::join(to, ","), fmt::join(mesh, ","));
}

TEST_CASE("X-53 every view that is accepted gives each rank its piece of the output") {
  const std::int64_t numels[] = {1, 4, 5, 6, 7, 8, 12, 14, 16, 24, 30, 36, 42, 48, 72, 96};
  const Dims meshes[] = {{2}, {3}, {4}, {7}, {2, 2}, {3, 2}, {2, 4}, {1, 2}, {2, 2, 2}, {3, 1, 2}};
  Views views;
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::int64_t numel = numels[views.draw.below(std::size(numels))];
    const Dims from = views.shape_of(numel), to = views.shape_of(numel);
    const Dims& mesh = meshes[views.draw.below(std::size(meshes))];
    const Placements source = views.placements_of(from.size(), mesh.size());
    const bool strict = views.draw.below(2) == 0;
    INFO(view_text(source, from, to, mesh));
    try {
      const auto policy = strict ? ViewPolicy::kStrict : ViewPolicy::kRedistribute;
      const ViewPlacements result = reshape(source, from, to, mesh, policy);
      CHECK(views.same(result, from, to, mesh));
      ++accepted;
    } catch (const Error& error) {
      CHECK(strict);
      CHECK(error.kind() == ErrorKind::kRuntime);
      ++refused;
    }
  }
  CHECK(accepted > 8000);
  CHECK(refused > 2000);
}

/// The placements in "redistribute the input to RSS(0,2) before the view".
Placements placements_in(std::string_view fix) {
  const std::string_view lead = "redistribute the input to ";
  REQUIRE(fix.starts_with(lead));
  fix.remove_prefix(lead.size());
  Placements result;
  while (!fix.starts_with(' ')) {
    const std::size_t length = fix.starts_with('R') ? 1 : fix.find(')') + 1;
    result.push_back(*parse_placement(fix.substr(0, length)));
    fix.remove_prefix(length);
  }
  return result;
}

TEST_CASE("a tensor that a strict view refuses may be viewed as its fix says") {
  Views views;
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const Dims from = views.shape_of(24), to = views.shape_of(24), mesh{2, 3};
    const Placements source = views.placements_of(from.size(), mesh.size());
    INFO(view_text(source, from, to, mesh));
    try {
      reshape(source, from, to, mesh);
    } catch (const Error& error) {
      const Placements viewable = placements_in(*error.find("fix"));
      CHECK_FALSE(viewable == source);
      CHECK(views.same(reshape(viewable, from, to, mesh), from, to, mesh));
      ++refused;
    }
  }
  CHECK(refused > 200);
}

/// Answers of PyTorch 2.15. The rows whose batch is cut into pieces of one are those of a
/// micro-batch of one per rank.
TEST_CASE("K-30 a batch and what follows it, both cut, are flattened and parted again") {
  struct Row {
    Dims shape, flat, mesh;
    const char* made[2];
  };
  const Row rows[] = {
      {{2, 6, 8}, {12, 8}, {2, 2}, {"S(0)", "SS(0,1)"}},
      {{2, 5, 8}, {10, 8}, {2, 2}, {"S(0)", "SS(0,1)"}},
      {{6, 5, 8}, {30, 8}, {2, 2}, {"S(0)", "SS(0,3)"}},
      {{4, 6, 8}, {24, 8}, {2, 4}, {"S(0)", "SS(0,2)"}},
      {{2, 4, 6, 4}, {8, 6, 4}, {2, 2}, {"S(0)", "SS(0,1)"}},
      {{4, 4, 6, 4}, {16, 6, 4}, {2, 2}, {"S(0)", "SS(0,2)"}},
  };
  for (const Row& row : rows) {
    const Placements cut = placements({"S(0)", "S(1)"});
    const Placements flat = placements({row.made[0], row.made[1]});
    CHECK(reshape(cut, row.shape, row.flat, row.mesh).outputs == flat);
    CHECK(reshape(flat, row.flat, row.shape, row.mesh).outputs == cut);
  }
  CHECK_THROWS_AS(reshape(placements({"S(0)", "S(1)"}), {3, 4, 6, 4}, {12, 6, 4}, {2, 2}), Error);
}

}  // namespace
}  // namespace shardlab
