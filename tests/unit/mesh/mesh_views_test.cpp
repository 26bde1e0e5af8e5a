// Views of meshes against the arrays of ranks that they are, written out by loops; equality however
// a mesh was made; coordinates that carry their mesh.
#include "mesh/mesh_views.h"

#include <doctest/doctest.h>

#include <set>

#include "mesh/local_shape.h"
#include "mesh/seen_mesh.h"
#include "tests/support/refusal.h"

namespace shardlab {
namespace {

using Names = std::vector<std::string>;

struct Refused {
  std::function<void()> ask;
  std::string refusal;
};

std::vector<std::int64_t> ranks_of(const MeshLayout& layout) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < layout.size(); ++i) ranks.push_back(layout.rank_at_index(i));
  return ranks;
}

TEST_CASE("M-7 equal meshes are one, however they were made") {
  Arena arena;
  const MeshLayout* root = arena.layout({{2, 3, 2}, {"a", "b", "c"}, {}});
  const MeshLayout* world = arena.layout({{12}, {"w"}, {}});
  const Dims sizes = {2, 3, 2};
  const MeshView unflat = unflattened(view_of(*world), 0, sizes, Names{"a", "b", "c"});
  CHECK(part_of(unflat, 5) == root);
  const MeshLayout* a = slice_layout(root, Names{"a"}, 5);
  CHECK(slice_layout(slice_layout(root, Names{"a", "b"}, 5), Names{"a"}, 5) == a);
  CHECK(slice_layout(part_of(unflat, 5), Names{"a"}, 5) == a);
  const MeshView parts[] = {view_of(*a), view_of(*slice_layout(root, Names{"b"}, 5))};
  CHECK(part_of(concatenated(parts), 5) == slice_layout(root, Names{"a", "b"}, 5));
  const MeshView flat = flattened(sliced(view_of(*root), Names{"b", "c"}), "f");
  const Dims back = {3, 2};
  CHECK(part_of(unflattened(flat, 0, back, Names{"b", "c"}), 5) ==
        slice_layout(root, Names{"b", "c"}, 5));
  // Not equal: of its own ranks, with other names, in another order, of another shape.
  CHECK(arena.layout({{2}, {"a"}, ranks_of(*a)}) != a);
  CHECK(arena.layout({{2, 3, 2}, {"x", "y", "z"}, {}}) != root);
  CHECK(arena.layout({{2, 3, 2}, {}, {}}) != root);
  CHECK(arena.layout({{2, 3, 2}, {"a", "b", "c"}, {1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}) != root);
  CHECK(world->root() == root->root());
}

TEST_CASE("M-7 every part of every view, by loops over the array of ranks") {
  Arena arena;
  const MeshLayout* root =
      arena.layout({{2, 3, 2}, {"a", "b", "c"}, {11, 4, 0, 7, 2, 9, 1, 3, 10, 5, 8, 6}});
  for (std::int64_t x = 0; x < 2; ++x) {
    for (std::int64_t y = 0; y < 3; ++y) {
      for (std::int64_t z = 0; z < 2; ++z) {
        const std::int64_t rank = root->rank_at({x, y, z});
        const MeshLayout* ac = slice_layout(root, Names{"a", "c"}, rank);
        CHECK(ac->is_cut());
        CHECK(ac->coordinate_of(rank) == Coordinate{x, z});
        std::vector<std::int64_t> wanted;
        for (std::int64_t i = 0; i < 2; ++i) {
          for (std::int64_t k = 0; k < 2; ++k) wanted.push_back(root->rank_at({i, y, k}));
        }
        CHECK(ranks_of(*ac) == wanted);
        const MeshLayout* flat = flatten_layout(root, Names{"a", "c"}, rank, "f");
        CHECK(ranks_of(*flat) == wanted);
        CHECK(place_along(*root->root(), flat->steps(0), rank) == 2 * x + z);
        CHECK(ranks_along(*root->root(), flat->steps(0), rank) == wanted);
        // Two dims again, and turned: c outside of a.
        const Dims two = {2, 2};
        const MeshView again = unflattened(view_of(*flat), 0, two, Names{"p", "q"});
        CHECK(part_of(again, rank)->coordinate_of(rank) == Coordinate{x, z});
        const MeshView turned[] = {view_of(*slice_layout(root, Names{"c"}, rank)),
                                   view_of(*slice_layout(root, Names{"a"}, rank))};
        CHECK(part_of(concatenated(turned), rank)->coordinate_of(rank) == Coordinate{z, x});
      }
    }
  }
  CHECK_FALSE(place_along(*root->root(), root->steps(1), 12));
  CHECK(part_of(sliced(view_of(*root), Names{"b"}), 12) == slice_layout(root, Names{"b"}, 11));
}

TEST_CASE("M-7 dims of one rank are steps of none, and their order does not matter") {
  Arena arena;
  const MeshLayout* root = arena.layout({{1, 4, 1, 2}, {"a", "b", "c", "d"}, {}});
  CHECK(slice_layout(root, Names{"c", "b"}, 3)->shape() == Dims{1, 4});
  CHECK(root->steps(0).empty());
  CHECK(flattened(view_of(*root), "f").steps[0] == MeshSteps{{8, 1}});
}

TEST_CASE("views that cannot be say what is wrong and what to write") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 3}, {"dp", "tp"}, {}});
  const MeshLayout* other = arena.layout({{2}, {"ep"}, {4, 5}});
  const MeshView view = view_of(*mesh), all = flattened(view, "all");
  const MeshView doubled[] = {view, all}, apart[] = {view, view_of(*other)};
  const Refused rows[] = {
      {[&] {
         unflattened(view, 1, {2, 2}, Names{"a", "b"});
       },
       "Value: _unflatten: {a:2, b:2} has 4 ranks, and tp has 3 | give sizes whose product is 3"},
      {[&] {
         unflattened(view, 1, {3}, Names{"a", "b"});
       },
       "Runtime: _unflatten: 1 sizes and 2 names | give one name a size"},
      {[&] { concatenated(doubled); },
       "Runtime: _concatenate: the meshes share dims | concatenate slices of one mesh along "
       "different dims"},
      {[&] { concatenated(apart); },
       "Runtime: _concatenate: the meshes are of different ranks | concatenate slices of one mesh "
       "along different dims"},
      {[&] {
         sliced(view, Names{"all", "tp"}, {&all, 1});
       },
       "Runtime: the dims all, tp of a mesh share steps | name a flattened dim or the dims that it "
       "is "
       "made of, not both"},
      {[&] {
         part_of(unflattened(all, 0, {2, 3}, Names{"a", "a"}), 0);
       },
       "Runtime: two mesh dims are called 'a' | give each mesh dim a name of its own"},
  };
  for (const Refused& row : rows) CHECK(refusal_of(row.ask) == row.refusal);
}

TEST_CASE("M-7 a coordinate of another mesh is refused, also one of as many dims") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 2}, {"dp", "tp"}, {}});
  const MeshLayout* turned = arena.layout({{2, 2}, {"dp", "tp"}, {3, 2, 1, 0}});
  const DTensorSpec* spec = arena.spec(mesh, {Placement::shard(0), Placement::replicate()},
                                       contiguous_meta(Dims{5}, DType::kF32));
  const Coordinate here = *mesh->coordinate_of(2), there = *turned->coordinate_of(2);
  CHECK(local_shape(*spec, here) == Dims{2});
  const std::string refusal = "Internal: a coordinate is used on another mesh than its own | ";
  CHECK(refusal_of([&] { local_shape(*spec, there); }) == refusal);
  CHECK(refusal_of([&] { local_view(*spec, there); }) == refusal);
  CHECK(refusal_of([&] { mesh->rank_at(there); }) == refusal);
  CHECK(refusal_of([&] { mesh->group_ranks(0, there); }) == refusal);
  CHECK(mesh->rank_at({1, 0}) == 2);
}

// Row-major sizes have a common refinement exactly if the products of their last sizes divide each
// other in turn; the coordinate on a mesh is read from that on the refinement.
TEST_CASE("R-45 meshes over the same ranks have a refinement, and axes on it") {
  Arena arena;
  const std::vector<Dims> shapes = {{24},   {2, 12},   {12, 2},   {3, 8},       {8, 3},  {4, 6},
                                    {6, 4}, {2, 3, 4}, {4, 3, 2}, {2, 2, 2, 3}, {1, 24}, {24, 1}};
  int found = 0, none = 0;
  for (const bool turned : {false, true}) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < 24 && turned; ++i) order.push_back(23 - i);
    for (const Dims& one : shapes) {
      for (const Dims& other : shapes) {
        const MeshLayout* a = arena.layout({one, {}, order});
        const MeshLayout* b = arena.layout({other, {}, order});
        std::set<std::int64_t> bounds;
        for (const Dims& shape : {one, other}) {
          std::int64_t product = 1;
          for (std::size_t dim = shape.size(); dim-- > 0;) bounds.insert(product *= shape[dim]);
        }
        bool divide = true;
        std::int64_t last = 1;
        for (const std::int64_t bound : bounds) {
          divide = divide && bound % last == 0;
          last = bound;
        }
        CAPTURE(a->text());
        CAPTURE(b->text());
        const MeshLayout* fine = refinement(*a, *b);
        REQUIRE((fine != nullptr) == divide);
        ++(divide ? found : none);
        for (const MeshLayout* mesh : {a, b}) {
          if (!divide) continue;
          const auto axes = axes_on(*fine, *mesh);
          REQUIRE(axes);
          for (std::int64_t rank = 0; rank < 24; ++rank) {
            const Coordinate at = *fine->coordinate_of(rank);
            for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
              std::int64_t place = 0;
              for (const auto& [part, step] : (*axes)[dim]) place += at[part] * step;
              CHECK(place == (*mesh->coordinate_of(rank))[dim]);
            }
          }
        }
      }
    }
  }
  CHECK(found > 100);
  CHECK(none > 50);
  const MeshLayout* root = arena.layout({{4, 3, 2}, {"a", "b", "c"}, {}});
  const MeshLayout* part = slice_layout(root, Names{"a", "c"}, 3);
  CHECK(refinement(*root, *part) == root);
  CHECK((*axes_on(*root, *part))[1] == MeshAxis{{2, 1}});
  CHECK(refinement(*root, *arena.layout({{4, 3}, {"a", "b"}, {}})) == nullptr);
}

TEST_CASE("M-7 a mesh of some ranks is a part of the whole where its ranks are evenly apart") {
  Arena arena;
  for (const auto& order : {std::vector<std::int64_t>{}, {3, 1, 0, 2, 7, 5, 4, 6, 11, 9, 8, 10}}) {
    const MeshLayout* whole = arena.layout({{3, 4}, {"a", "b"}, order});
    int parts = 0;
    for (std::int64_t first = 0; first < 12; ++first) {
      for (std::int64_t step = 1; step < 12; ++step) {
        for (std::int64_t size = 2; first + (size - 1) * step < 12; ++size) {
          std::vector<std::int64_t> ranks;
          for (std::int64_t i = 0; i < size; ++i) {
            ranks.push_back(whole->rank_at_index(first + i * step));
          }
          const MeshLayout* own = arena.layout({{size}, {"x"}, ranks});
          const MeshLayout& part = seen_from(*whole, *own);
          if (size == 12 || &part == own) continue;
          ++parts;
          CHECK(part.root() == whole->root());
          CHECK(ranks_of(part) == ranks);
        }
      }
    }
    // Steps of 1: 6 pairs, 4 threes, 3 fours, 2 sixes; of 2: 6 + 4 + 2; of 3: 6 + 3; of 4: 4; of
    // 6: 6.
    CHECK(parts == 46);
    const MeshLayout* crooked = arena.layout({{2, 2}, {"x", "y"}, {0, 1, 3, 2}});
    CHECK(&seen_from(*whole, *crooked) == crooked);
    const MeshLayout* across = arena.layout({{4}, {"x"}, {1, 2, 3, 4}});
    if (order.empty()) CHECK(&seen_from(*whole, *across) == across);
  }
  const MeshLayout* whole = arena.layout({{3, 4}, {"a", "b"}, {}});
  const MeshLayout* right = arena.layout({{3, 2}, {"x", "y"}, {2, 3, 6, 7, 10, 11}});
  const MeshLayout& part = seen_from(*whole, *right);
  CHECK(part.is_cut());
  const auto axes = axes_on(*arena.layout({{3, 2, 2}, {"a", "b", "c"}, {}}), part);
  REQUIRE(axes);
  CHECK((*axes)[0] == MeshAxis{{0, 1}});
  CHECK((*axes)[1] == MeshAxis{{2, 1}});
}

}  // namespace
}  // namespace shardlab
