#include "backends/fake/rank_grid.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace shardlab::fake {
namespace {

const MeshLayout* mesh(Arena& arena, Dims shape, std::vector<std::int64_t> ranks = {}) {
  MeshLayout::Init init;
  const std::vector<std::string> names = {"dp", "tp", "pp", "cp"};
  init.names.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shape.size()));
  init.shape = std::move(shape);
  init.ranks = std::move(ranks);
  return arena.layout(std::move(init));
}

std::vector<std::int64_t> ranks_of(const RankGrid& grid, std::size_t cell) {
  return grid.ranks([cell](std::size_t other) { return other == cell; });
}

const auto everywhere = [](std::size_t) { return true; };

TEST_CASE("a world larger than its mesh begins with two cells") {
  Arena arena;
  const RankGrid grid(*mesh(arena, {2, 3}), 8);
  REQUIRE(grid.cell_count() == 2);
  CHECK(grid.inside(0));
  CHECK(grid.size(0) == 6);
  CHECK_FALSE(grid.inside(1));
  CHECK(ranks_of(grid, 1) == std::vector<std::int64_t>{6, 7});
}

TEST_CASE("a cut between coordinates makes two cells, and parts inherit the tag") {
  Arena arena;
  RankGrid grid(*mesh(arena, {2, 4}), 8);
  grid.set_tag(0, 7);
  grid.cut({{1, 3}});
  REQUIRE(grid.cell_count() == 2);
  CHECK(ranks_of(grid, 0) == std::vector<std::int64_t>{0, 1, 2, 4, 5, 6});
  CHECK(ranks_of(grid, 1) == std::vector<std::int64_t>{3, 7});
  CHECK(grid.tag(0) == 7);
  CHECK(grid.tag(1) == 7);
  grid.set_tag(1, 8);
  CHECK(grid.where(7) == "tp 0-2");
  CHECK(grid.where(8) == "tp 3");
}

TEST_CASE("one rank of its own costs one part of each mesh dim") {
  Arena arena;
  RankGrid grid(*mesh(arena, {256, 256}), 65536);
  grid.split([](std::int64_t rank) { return rank == 300 ? 1 : 0; }, everywhere);
  CHECK(grid.cell_count() == 4);
  const std::size_t cell = grid.cell_at({1, 44});
  CHECK(grid.size(cell) == 1);
  CHECK(grid.first_rank(cell) == 300);
}

TEST_CASE("every other rank is every other coordinate of the last dim") {
  Arena arena;
  RankGrid grid(*mesh(arena, {256, 256}), 65536);
  grid.split([](std::int64_t rank) { return static_cast<std::uint64_t>(rank % 2); }, everywhere);
  REQUIRE(grid.cell_count() == 2);
  CHECK(grid.size(0) == 32768);
  CHECK(grid.first_rank(1) == 1);
}

TEST_CASE("only cells that are asked part") {
  Arena arena;
  RankGrid grid(*mesh(arena, {4}), 4);
  grid.cut({{0, 2}});
  grid.split([](std::int64_t rank) { return static_cast<std::uint64_t>(rank); },
             [](std::size_t cell) { return cell == 1; });
  CHECK(grid.cell_count() == 3);
  CHECK(grid.size(grid.cell_at({0})) == 2);
}

TEST_CASE("M-7 an array of any ranks: cells hold the array's ranks") {
  Arena arena;
  RankGrid grid(*mesh(arena, {2, 2}, {5, 0, 3, 2}), 6);
  CHECK(ranks_of(grid, 1) == std::vector<std::int64_t>{1, 4});
  grid.split([](std::int64_t rank) { return rank == 3 || rank == 1 ? 1 : 0; }, everywhere);
  CHECK(ranks_of(grid, grid.cell_at({1, 0})) == std::vector<std::int64_t>{3});
  CHECK(ranks_of(grid, grid.cell_at({0, 0})) == std::vector<std::int64_t>{5});
  CHECK(grid.cell_count() == 6);
}

TEST_CASE("a line through a cell holds all cells of its mesh dims") {
  Arena arena;
  RankGrid grid(*mesh(arena, {2, 4}), 8);
  grid.cut({{0, 1}, {1, 3}});
  const std::size_t cell = grid.cell_at({1, 0});
  CHECK(grid.line(cell, {1}) == std::vector<std::size_t>{cell, grid.cell_at({1, 3})});
  CHECK(grid.line(cell, {0, 1}).size() == 4);
}

// Any function of the rank on any mesh: cells are a partition, ranks of one cell give the same
// answer, and two coordinates are separated only if the answers differ somewhere.
TEST_CASE("random answers on meshes of up to 4 dims") {
  std::mt19937 random(5);
  int listed = 0;
  const auto below = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  for (int round = 0; round < 200; ++round) {
    Arena arena;
    Dims shape;
    for (std::int64_t i = 1 + below(4); i > 0; --i) shape.push_back(1 + below(5));
    const MeshLayout* layout = mesh(arena, shape);
    const std::int64_t world = layout->size() + below(3);
    RankGrid grid(*layout, world);
    const std::int64_t period = 1 + below(6), special = below(world);
    const auto answer = [&](std::int64_t rank) {
      return static_cast<std::uint64_t>(rank % period + (rank == special ? 100 : 0));
    };
    grid.split(answer, everywhere);
    std::vector<int> seen(static_cast<std::size_t>(world));
    for (std::size_t cell = 0; cell < grid.cell_count(); ++cell) {
      const std::vector<std::int64_t> ranks = ranks_of(grid, cell);
      CHECK(static_cast<std::int64_t>(ranks.size()) == grid.size(cell));
      CHECK(std::is_sorted(ranks.begin(), ranks.end()));
      for (const std::int64_t rank : ranks) {
        ++seen[static_cast<std::size_t>(rank)];
        CHECK(answer(rank) == answer(grid.first_rank(cell)));
      }
    }
    CHECK(seen == std::vector<int>(static_cast<std::size_t>(world), 1));
    // Cells of any place: the text is that of their ranks, one by one.
    for (std::size_t cell = 0; cell < grid.cell_count(); ++cell) {
      grid.set_tag(cell, static_cast<int>(below(2)));
    }
    const std::string where = grid.where(1);
    if (!where.starts_with("ranks ")) continue;
    ++listed;
    const auto ranks = grid.ranks([&](std::size_t cell) { return grid.tag(cell) == 1; });
    CHECK(where == "ranks " + shortened_ranges(ranks, 48));
  }
  CHECK(listed > 50);
}

TEST_CASE("a grid of a billion ranks holds runs, and names places without a list") {
  Arena arena;
  constexpr std::int64_t kMany = 1 << 29;
  RankGrid one(*mesh(arena, {2 * kMany}), 2 * kMany);
  one.cut({{0, 7}, {0, kMany}});
  one.set_tag(1, 5);
  CHECK(one.where(5) == "dp 7-536870911");
  CHECK(one.cell_at({kMany}) == 2);
  RankGrid two(*mesh(arena, {1024, 1 << 19}), kMany);
  two.cut({{0, 1023}, {1, 3}});
  two.set_tag(two.cell_at({0, 0}), 5);
  two.set_tag(two.cell_at({1023, 3}), 5);
  CHECK(two.where(5).starts_with("ranks 0-2,524288-524290,1048576-1048578,"));
  two.set_tag(two.cell_at({0, 0}), 0);
  CHECK(two.where(5) == "dp 1023, tp 3-524287");
}

}  // namespace
}  // namespace shardlab::fake
