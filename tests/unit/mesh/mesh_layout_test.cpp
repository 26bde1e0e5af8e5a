#include "mesh/mesh_layout.h"

#include <doctest/doctest.h>

#include <numeric>

#include "mesh/mesh_views.h"
#include "mesh/spec.h"

using namespace shardlab;

namespace {

using Ranks = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

template <typename Call>
std::optional<ErrorKind> kind_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("M-7 equal layouts are one object; names and rank order count") {
  Arena arena;
  const MeshLayout* plain = arena.layout({{2, 2}, {}, {}});
  CHECK(plain == arena.layout({{2, 2}, {}, {0, 1, 2, 3}}));
  CHECK(plain->is_iota());
  CHECK(plain != arena.layout({{2, 2}, {"a", "b"}, {}}));
  CHECK(plain != arena.layout({{2, 2}, {"m0", "m1"}, {}}));
  CHECK(plain != arena.layout({{4}, {}, {}}));
  CHECK(plain != arena.layout({{2, 2}, {}, {0, 2, 1, 3}}));
  CHECK(plain->names() == Names{"m0", "m1"});
  CHECK_FALSE(plain->named());
}

TEST_CASE("M-6 coordinates: row-major over the array, absent outside of it") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 2}, {"a", "b"}, {0, 3, 5, 6}});
  CHECK(layout->coordinate_of(5) == Coordinate{1, 0});
  CHECK_FALSE(layout->coordinate_of(4).has_value());
  CHECK_FALSE(layout->coordinate_of(-1).has_value());
  CHECK(layout->rank_at({0, 1}) == 3);
  CHECK(layout->index_of({1, 1}) == 3);
  CHECK(layout->coordinate_at_index(2) == Coordinate{1, 0});
  CHECK(layout->text() == "{a:2, b:2}");
  CHECK_FALSE(arena.layout({{2, 3}, {}, {}})->coordinate_of(6).has_value());
}

TEST_CASE("X-43 the array's order rules: groups keep it") {
  Arena arena;
  const MeshLayout* turned = arena.layout({{2, 2}, {"dp", "tp"}, {0, 2, 1, 3}});
  CHECK(turned->group_ranks(0, {0, 0}) == Ranks{0, 1});
  CHECK(turned->group_ranks(1, {0, 0}) == Ranks{0, 2});
  const Names both{"dp", "tp"};
  const MeshLayout* flat = flatten_layout(turned, both, {0, 0}, "");
  CHECK(flat->names() == Names{"dp_tp"});
  CHECK(flat->group_ranks(0, {0}) == Ranks{0, 2, 1, 3});
  const MeshLayout* reversed = arena.layout({{4}, {"x"}, {3, 2, 1, 0}});
  CHECK(reversed->group_ranks(0, {0}) == Ranks{3, 2, 1, 0});
  CHECK(reversed->coordinate_of(0) == Coordinate{3});
}

TEST_CASE("groups over several dims run row-major in the given order") {
  Arena arena;
  const MeshLayout* cube = arena.layout({{2, 2, 2}, {}, {}});
  const std::size_t outer_inner[] = {0, 2};
  const std::size_t inner_outer[] = {2, 0};
  CHECK(cube->group_ranks(outer_inner, {0, 1, 0}) == Ranks{2, 3, 6, 7});
  CHECK(cube->group_ranks(inner_outer, {0, 1, 0}) == Ranks{2, 6, 3, 7});
}

TEST_CASE("slices are the part that holds the rank, dims in ascending order") {
  Arena arena;
  const MeshLayout* cube = arena.layout({{2, 2, 2}, {"pp", "dp", "tp"}, {}});
  const MeshLayout* slice = slice_layout(cube, Names{"pp", "dp"}, std::int64_t{7});
  CHECK(slice->shape() == Dims{2, 2});
  CHECK(slice->group_ranks(0, {0, 0}) == Ranks{1, 5});
  CHECK(slice == slice_layout(cube, Names{"pp", "dp"}, Coordinate{0, 1, 1}));
  CHECK(slice_layout(cube, Names{"pp", "dp", "tp"}, Coordinate{0, 0, 0}) == cube);
  CHECK(kind_of([&] {
          slice_layout(cube, Names{"tp", "pp"}, Coordinate{0, 0, 0});
        }) == ErrorKind::kValue);
  CHECK(kind_of([&] { slice_layout(cube, Names{"dp"}, std::int64_t{8}); }) == ErrorKind::kRuntime);
  CHECK(slice_layout(cube, Names{"pp", "dp", "tp"}, std::int64_t{8}) == cube);
}

TEST_CASE("an unknown mesh dim is refused with the nearest name") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2}, {"batch"}, {}});
  try {
    slice_layout(layout, Names{"bacth"}, Coordinate{0});
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(*error.find("fix") == "did you mean 'batch'?");
    CHECK(*error.find("mesh") == "{batch:2}");
  }
}

TEST_CASE("X-43 layouts that make no sense are refused") {
  Arena arena;
  CHECK(kind_of([&] { arena.layout({{0}, {}, {}}); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { arena.layout({{-1}, {}, {}}); }) == ErrorKind::kRuntime);
  CHECK(kind_of([&] { arena.layout({{3}, {}, {0, 0, 1}}); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { arena.layout({{2, 2}, {}, {0, 1, 1, 2}}); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { arena.layout({{2}, {}, {-1, 0}}); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { arena.layout({{2}, {}, {0, 1, 2}}); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { arena.layout({{2, 2}, {"a", "a"}, {}}); }) == ErrorKind::kRuntime);
  CHECK(kind_of([&] { arena.layout({{2, 2}, {"a"}, {}}); }) == ErrorKind::kRuntime);
  CHECK(kind_of([&] { arena.layout({{INT64_MAX, 2}, {}, {}}); }) == ErrorKind::kValue);
}

TEST_CASE("a mesh must fit its world") {
  Arena arena;
  const MeshLayout* subset = arena.layout({{3}, {}, {0, 1, 9}});
  CHECK(kind_of([&] { subset->check_fits(4); }) == ErrorKind::kValue);
  CHECK(kind_of([&] { subset->check_fits(2); }) == ErrorKind::kRuntime);
  CHECK_FALSE(kind_of([&] { subset->check_fits(10); }));
  CHECK_FALSE(kind_of([&] { arena.layout({{4}, {}, {}})->check_fits(4); }));
}

TEST_CASE("a layout of 1,048,576 ranks in row-major order stores no ranks") {
  Arena arena;
  const MeshLayout* huge = arena.layout({{1024, 1024}, {"dp", "tp"}, {}});
  CHECK(huge->is_iota());
  CHECK(huge->size() == 1048576);
  CHECK(huge->coordinate_of(1048575) == Coordinate{1023, 1023});
  CHECK(huge->group_ranks(0, {5, 7})[3] == 3 * 1024 + 7);
}
