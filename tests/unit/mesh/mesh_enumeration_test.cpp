// Coordinates, groups, slices and flattened dims of meshes against a walk over all places of the
// array: two ranks are in one group along some dims exactly when their other coordinates are equal.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "mesh/mesh_dim.h"
#include "mesh/mesh_views.h"
#include "mesh/spec.h"
#include "tests/support/refusal.h"

using namespace shardlab;

namespace {

using Ranks = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

/// A place of the array with its rank, in row-major order.
struct Place {
  Coordinate at;
  std::int64_t rank;
};

std::vector<Place> places_of(const Dims& shape, const Ranks& ranks) {
  std::vector<Place> places;
  Coordinate at(shape.size(), 0);
  for (bool more = true; more;) {
    const auto index = places.size();
    places.push_back({at, ranks.empty() ? static_cast<std::int64_t>(index) : ranks[index]});
    more = false;
    for (std::size_t dim = shape.size(); dim-- > 0 && !more;) {
      more = ++at[dim] < shape[dim];
      if (!more) at[dim] = 0;
    }
  }
  return places;
}

/// Ranks whose coordinates outside of `dims` are those of `at`; by coordinates along `dims`, the
/// first listed dim slowest.
Ranks walked_group(const std::vector<Place>& places, const std::vector<std::size_t>& dims,
                   const Coordinate& at) {
  std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> found;
  for (const Place& place : places) {
    bool member = true;
    for (std::size_t dim = 0; dim < at.size(); ++dim) {
      const bool along = std::find(dims.begin(), dims.end(), dim) != dims.end();
      member &= along || place.at[dim] == at[dim];
    }
    if (!member) continue;
    std::vector<std::int64_t> key;
    for (const std::size_t dim : dims) key.push_back(place.at[dim]);
    found.emplace_back(key, place.rank);
  }
  std::sort(found.begin(), found.end());
  Ranks ranks;
  for (const auto& [key, rank] : found) ranks.push_back(rank);
  return ranks;
}

struct MeshRow {
  Dims shape;
  Ranks ranks;
};

/// 12 ranks of 40 in no order.
Ranks scattered(std::int64_t count) {
  Ranks ranks;
  for (std::int64_t i = 0; i < count; ++i) ranks.push_back(i * 17 % 41);
  return ranks;
}

const MeshRow kMeshes[] = {
    {{4}, {}},
    {{2, 3}, {}},
    {{3, 1, 2}, {}},
    {{2, 2, 3}, scattered(12)},
    {{5}, {4, 2, 0, 1, 3}},
    {{2, 3}, {10, 20, 30, 5, 4, 3}},
    {{1, 1}, {7}},
};

/// Every list of different dims, in every order.
std::vector<std::vector<std::size_t>> all_lists(std::size_t ndim) {
  std::vector<std::vector<std::size_t>> lists;
  std::vector<std::size_t> dims(ndim);
  std::iota(dims.begin(), dims.end(), 0);
  do {
    for (std::size_t count = 1; count <= ndim; ++count) {
      std::vector<std::size_t> list(dims.begin(),
                                    dims.begin() + static_cast<std::ptrdiff_t>(count));
      if (std::find(lists.begin(), lists.end(), list) == lists.end()) lists.push_back(list);
    }
  } while (std::next_permutation(dims.begin(), dims.end()));
  return lists;
}

Names names_for(std::size_t ndim) {
  const Names all{"dp", "tp", "pp"};
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(ndim)};
}

struct Refusal {
  std::function<void()> ask;
  const char* refusal;
};

}  // namespace

TEST_CASE("M-6 rank, coordinate and index are three names of one place of the array") {
  for (const MeshRow& row : kMeshes) {
    Arena arena;
    const MeshLayout* layout = arena.layout({row.shape, {}, row.ranks});
    CAPTURE(layout->text());
    const std::vector<Place> places = places_of(row.shape, row.ranks);
    REQUIRE(layout->size() == static_cast<std::int64_t>(places.size()));
    std::vector<bool> in_mesh(64, false);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      CHECK(layout->coordinate_at_index(index) == places[i].at);
      CHECK(layout->index_of(places[i].at) == index);
      CHECK(layout->rank_at(places[i].at) == places[i].rank);
      CHECK(layout->rank_at_index(index) == places[i].rank);
      CHECK(layout->coordinate_of(places[i].rank) == places[i].at);
      in_mesh[static_cast<std::size_t>(places[i].rank)] = true;
    }
    for (std::int64_t rank = 0; rank < 64; ++rank) {
      CHECK(layout->coordinate_of(rank).has_value() == in_mesh[static_cast<std::size_t>(rank)]);
    }
  }
}

TEST_CASE("X-43 groups along any dims in any order are the ranks that differ in these dims only") {
  for (const MeshRow& row : kMeshes) {
    Arena arena;
    const MeshLayout* layout = arena.layout({row.shape, {}, row.ranks});
    CAPTURE(layout->text());
    const std::vector<Place> places = places_of(row.shape, row.ranks);
    for (const std::vector<std::size_t>& dims : all_lists(row.shape.size())) {
      for (const Place& place : places) {
        CHECK(layout->group_ranks(dims, place.at) == walked_group(places, dims, place.at));
      }
    }
    for (std::size_t dim = 0; dim < row.shape.size(); ++dim) {
      for (const Place& place : places) {
        CHECK(layout->group_of(dim, place.rank) == walked_group(places, {dim}, place.at));
      }
    }
  }
}

TEST_CASE("slices and flattened dims hold the group of the rank, and name it after its dims") {
  for (const MeshRow& row : kMeshes) {
    Arena arena;
    const Names names = names_for(row.shape.size());
    const MeshLayout* layout = arena.layout({row.shape, names, row.ranks});
    CAPTURE(layout->text());
    const std::vector<Place> places = places_of(row.shape, row.ranks);
    for (const std::vector<std::size_t>& dims : all_lists(row.shape.size())) {
      if (!std::is_sorted(dims.begin(), dims.end())) continue;
      Names wanted;
      Dims shape;
      std::string joined;
      for (const std::size_t dim : dims) {
        wanted.push_back(names[dim]);
        shape.push_back(row.shape[dim]);
        joined += (joined.empty() ? "" : "_") + names[dim];
      }
      for (const Place& place : places) {
        const MeshLayout* slice = slice_layout(layout, wanted, place.rank);
        const Ranks expected = walked_group(places, dims, place.at);
        CHECK(slice->shape() == shape);
        CHECK(slice->names() == wanted);
        CHECK(slice == slice_layout(layout, wanted, place.at));
        const MeshLayout* flat = flatten_layout(layout, wanted, place.rank, "");
        CHECK(flat->shape() == Dims{static_cast<std::int64_t>(expected.size())});
        CHECK(flat->names() == Names{joined});
        CHECK(flatten_layout(layout, wanted, place.at, "one")->names() == Names{"one"});
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CHECK(slice->rank_at_index(static_cast<std::int64_t>(i)) == expected[i]);
          CHECK(flat->rank_at_index(static_cast<std::int64_t>(i)) == expected[i]);
        }
      }
    }
  }
}

TEST_CASE("a slice of a slice is the slice along the dims that are left") {
  Arena arena;
  const MeshLayout* cube = arena.layout({{2, 3, 2}, {"pp", "dp", "tp"}, scattered(12)});
  for (std::int64_t i = 0; i < 12; ++i) {
    const std::int64_t rank = cube->rank_at_index(i);
    const MeshLayout* pair = slice_layout(cube, Names{"pp", "tp"}, rank);
    CHECK(slice_layout(pair, Names{"tp"}, rank) == slice_layout(cube, Names{"tp"}, rank));
    CHECK(slice_layout(pair, Names{"pp"}, rank) == slice_layout(cube, Names{"pp"}, rank));
  }
}

TEST_CASE("questions about a mesh that have no answer say what was asked and what to write") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 3}, {"dp", "tp"}, {5, 4, 3, 2, 1, 0}});
  const Refusal rows[] = {
      {[&] { slice_layout(mesh, Names{}, std::int64_t{0}); },
       "Value: a mesh slice names no dim | name some of: dp, tp"},
      {[&] {
         slice_layout(mesh, Names{"tp", "dp"}, std::int64_t{0});
       },
       "Value: the dims of a mesh slice must be in the mesh's order | name them in this order: "
       "dp, tp"},
      {[&] {
         slice_layout(mesh, Names{"dp", "dp"}, std::int64_t{0});
       },
       "Value: the dims of a mesh slice must be in the mesh's order | name them in this order: "
       "dp, tp"},
      {[&] { slice_layout(mesh, Names{"tpp"}, std::int64_t{0}); },
       "Value: mesh has no dim 'tpp' | did you mean 'tp'?"},
      {[&] { slice_layout(mesh, Names{"tp"}, std::int64_t{6}); },
       "Runtime: rank 6 is outside the mesh, so that it has no slice along tp | ask for the slice "
       "on the ranks of the mesh only"},
      {[&] { flatten_layout(mesh, Names{"dp"}, std::int64_t{9}, ""); },
       "Runtime: rank 9 is outside the mesh, so that it has no slice along dp | ask for the slice "
       "on the ranks of the mesh only"},
  };
  for (const Refusal& row : rows) CHECK(refusal_of(row.ask) == row.refusal);
}

TEST_CASE("X-43 layouts that cannot be say what is wrong and what to write") {
  Arena arena;
  const Refusal rows[] = {
      {[&] {
         arena.layout({{2}, {}, {3, 3}});
       },
       "Value: the mesh names rank 3 twice | give every place of the mesh a rank of its own"},
      {[&] {
         arena.layout({{2}, {}, {-2, 3}});
       },
       "Value: the mesh names rank -2 | ranks are numbered from 0 on"},
      {[&] {
         arena.layout({{2}, {}, {1, 2, 3}});
       },
       "Value: the mesh names 3 ranks and has places for 2 | name as many ranks as the sizes of "
       "its dims multiply to, or none"},
      {[&] {
         arena.layout({{2, 2}, {"x"}, {}});
       },
       "Runtime: the mesh has 1 names and 2 dims | give one name per dim, or none at all"},
      {[&] {
         arena.layout({{2, 2}, {"x", "x"}, {}});
       },
       "Runtime: two mesh dims are called 'x' | give each mesh dim a name of its own"},
      {[&] {
         arena.layout({{2, 0}, {"x", "y"}, {}});
       },
       "Value: mesh dim 'y' has 0 ranks; it must have at least 1 | leave the dim out, or give it 1 "
       "rank"},
      {[&] {
         arena.layout({{-3}, {}, {}});
       },
       "Runtime: mesh dim 0 has -3 ranks; it must have at least 1 | leave the dim out, or give it "
       "1 rank"},
  };
  for (const Refusal& row : rows) CHECK(refusal_of(row.ask) == row.refusal);
}

TEST_CASE("mesh dims by name and by number, counted from the end as well") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 3, 4}, {"pp", "dp", "tp"}, {}});
  CHECK(mesh_dim_named(*mesh, "dp", "asker") == 1);
  const std::size_t by_number[] = {0, 1, 2};
  for (std::int64_t number = -3; number < 3; ++number) {
    CAPTURE(number);
    CHECK(mesh_dim_numbered(*mesh, number, "asker") ==
          by_number[static_cast<std::size_t>((number + 3) % 3)]);
  }
  for (const std::int64_t number : {-4, 3}) {
    const std::string refusal = refusal_of([&] { mesh_dim_numbered(*mesh, number, "asker"); });
    CAPTURE(refusal);
    CHECK(refusal.starts_with("Value: asker"));
    CHECK(refusal.find(std::to_string(number)) != std::string::npos);
  }
  const std::string unknown = refusal_of([&] { mesh_dim_named(*mesh, "tq", "asker"); });
  CAPTURE(unknown);
  CHECK(unknown.starts_with("Value: asker"));
  CHECK(unknown.ends_with("did you mean 'tp'?"));
}
