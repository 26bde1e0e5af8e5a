// Moves between drawn meshes: permuted, parts of the world, one inside of the other, disjoint;
// uneven and empty shards, strided ones, pending sums. A value is dealt out by loops in this file,
// and the pieces that arrive are cut from the whole again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "mesh/local_shape.h"
#include "mesh/mesh_views.h"
#include "redistribute/between_meshes.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/seen.h"
#include "tests/unit/redistribute/on_mesh.h"

namespace shardlab {
namespace {

using test::OnMesh;
using Elements = std::vector<double>;

constexpr std::int64_t kRanksOfWorld = 8;

Elements dealt_piece(const DTensorSpec& spec, const Coordinate& at) {
  const LocalView view = local_view(spec, at);
  // A pending sum: the term of the last rank is what the others leave.
  double share = 0, others = 0;
  bool last = true;
  std::int64_t terms = 1;
  for (std::size_t dim = 0; dim < at.size(); ++dim) {
    if (!spec.placement(dim).is_partial()) continue;
    last = last && at[dim] == spec.layout()->size(dim) - 1;
    terms *= spec.layout()->size(dim);
  }
  if (!last) share = 1;
  others = static_cast<double>(terms - 1);
  Elements piece;
  for (std::int64_t row = 0; row < spec.shape()[0]; ++row) {
    for (std::int64_t column = 0; column < spec.shape()[1]; ++column) {
      if (!view.holds({row, column})) continue;
      const auto value = static_cast<double>(row * 100 + column + 1);
      piece.push_back(last ? value - others : share);
    }
  }
  return piece;
}

class MeshDraw {
 public:
  explicit MeshDraw(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_);
  }

  const MeshLayout* mesh(Arena& arena) {
    constexpr std::int64_t kShapes[][3] = {{1, 1, 2}, {1, 1, 3}, {1, 2, 2}, {1, 2, 3}, {1, 3, 2},
                                           {1, 1, 6}, {1, 2, 4}, {1, 4, 2}, {1, 1, 8}, {2, 2, 2}};
    const auto& shape = kShapes[below(std::size(kShapes))];
    std::vector<std::int64_t> ranks(kRanksOfWorld);
    std::iota(ranks.begin(), ranks.end(), 0);
    if (below(2) == 0) std::shuffle(ranks.begin(), ranks.end(), random_);
    ranks.resize(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
    return arena.layout({.shape = {shape[0], shape[1], shape[2]},
                         .names = {"a", "b", "c"},
                         .ranks = std::move(ranks)});
  }

  const DTensorSpec* spec(const MeshLayout* mesh, const Dims& shape, bool pending) {
    Placements placements;
    for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
      const std::int64_t kind = below(pending ? 5 : 4);
      placements.push_back(kind == 0   ? Placement::replicate()
                           : kind == 4 ? Placement::partial()
                           : kind == 3 ? Placement::strided_shard(below(2), 2)
                                       : Placement::shard(kind - 1));
    }
    return mesh->arena().spec(mesh, placements, contiguous_meta(shape, DType::kF64));
  }

 private:
  std::mt19937 random_;
};

// Deals out a value by `from`, moves it, and cuts the whole by `to`.
void check_move(OnMesh& all, const DTensorSpec* from, const DTensorSpec* to) {
  std::vector<Elements> got(kRanksOfWorld);
  std::vector<double> received(kRanksOfWorld);
  all.run([&](RankContext& rank) {
    rank.meshes->construct(from->layout());
    rank.meshes->construct(to->layout());
    const auto at = from->layout()->coordinate_of(rank.rank);
    const Tensor piece =
        at ? test::tensor(local_shape(*from, *at), dealt_piece(*from, *at), DType::kF64)
           : test::tensor({0}, {}, DType::kF64);
    test::Seen seen;
    const Tensor moved = redistribute_local(piece, from, to);
    const auto index = static_cast<std::size_t>(rank.rank);
    got[index] = read_doubles(moved);
    for (const CollectiveRecord& record : seen.collectives) {
      // A rank receives the result of a gather but for its own piece.
      const auto own = static_cast<double>(product(record.input_shape) * item_bytes(DType::kF64));
      if (record.kind == CollectiveKind::kAllGather) received[index] += record.bytes - own;
      if (record.kind == CollectiveKind::kRecv) received[index] += record.bytes;
    }
  });
  CAPTURE(from->layout()->text());
  CAPTURE(to_string(from->placements()));
  CAPTURE(to_string(to->placements()));
  for (std::int64_t rank = 0; rank < kRanksOfWorld; ++rank) {
    const auto at = to->layout()->coordinate_of(rank);
    const DTensorSpec* plain = to;
    const Elements expected = at ? dealt_piece(*plain, *at) : Elements{};
    CHECK(got[static_cast<std::size_t>(rank)] == expected);
  }
  if (!from->has_partial() && from->layout() != to->layout()) {
    CHECK(*std::ranges::max_element(received) == bytes_between(*from, *to));
  }
}

TEST_CASE("R-45 a value moves between any two meshes") {
  OnMesh all({kRanksOfWorld});
  Arena& arena = all.layout()->arena();
  MeshDraw draw(11);
  constexpr std::int64_t kShapes[][2] = {{7, 3}, {8, 4}, {5, 1}, {0, 3}, {13, 6}, {1, 1}};
  for (int i = 0; i < 150; ++i) {
    const auto& shape = kShapes[draw.below(std::size(kShapes))];
    const DTensorSpec* from = draw.spec(draw.mesh(arena), {shape[0], shape[1]}, true);
    const DTensorSpec* to = draw.spec(draw.mesh(arena), {shape[0], shape[1]}, false);
    check_move(all, from, to);
  }
}

TEST_CASE("R-45 a value moves between any two views of all ranks") {
  OnMesh all({kRanksOfWorld});
  Arena& arena = all.layout()->arena();
  MeshDraw draw(5);
  const std::vector<Dims> shapes = {{8}, {2, 4}, {4, 2}, {2, 2, 2}};
  constexpr std::int64_t kSizes[][2] = {{16, 8}, {8, 3}, {13, 6}, {10, 4}, {24, 16}};
  const auto drawn = [&](const Dims& size) {
    const auto index = static_cast<std::size_t>(draw.below(std::ssize(shapes)));
    const MeshLayout* mesh = arena.layout({shapes[index], {}, {}});
    Placements placements;
    for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
      const std::int64_t kind = draw.below(5);
      placements.push_back(kind < 2 ? Placement::replicate() : Placement::shard(kind == 2 ? 1 : 0));
    }
    return arena.spec(mesh, placements, contiguous_meta(size, DType::kF64));
  };
  for (int i = 0; i < 120; ++i) {
    const auto& size = kSizes[draw.below(std::size(kSizes))];
    const DTensorSpec* from = drawn({size[0], size[1]});
    check_move(all, from, drawn({size[0], size[1]}));
  }
  // The last of 4 pieces of 14 rows is cut into 1 and 1, the others into 2 and 2.
  const MeshLayout *nested = arena.layout({{4, 2}, {}, {}}), *flat = arena.layout({{8}, {}, {}});
  const auto meta = contiguous_meta(Dims{14, 2}, DType::kF64);
  const auto rows = Placement::shard(0);
  check_move(all, arena.spec(nested, {rows, rows}, meta), arena.spec(flat, {rows}, meta));
  check_move(all, arena.spec(flat, {rows}, meta), arena.spec(nested, {rows, rows}, meta));
}

TEST_CASE("R-45 another view of the same pieces moves nothing") {
  OnMesh all({2, 4});
  const MeshLayout* flat =
      all.layout()->arena().layout({.shape = {8}, .names = {"w"}, .ranks = {}});
  const auto meta = contiguous_meta(Dims{13, 2}, DType::kF64);
  const DTensorSpec* both =
      all.layout()->arena().spec(all.layout(), {Placement::shard(0), Placement::shard(0)},
                                 contiguous_meta(Dims{16, 2}, DType::kF64));
  const DTensorSpec* one =
      flat->arena().spec(flat, {Placement::shard(0)}, contiguous_meta(Dims{16, 2}, DType::kF64));
  CHECK(bytes_between(*both, *one) == 0);
  // Uneven: 15 in 8 pieces of 2 are 15 in 2 pieces of 8 and then in 4; 13 are not.
  const auto near = contiguous_meta(Dims{15, 2}, DType::kF64);
  const DTensorSpec* near_both =
      all.layout()->arena().spec(all.layout(), {Placement::shard(0), Placement::shard(0)}, near);
  const DTensorSpec* near_one = flat->arena().spec(flat, {Placement::shard(0)}, near);
  const DTensorSpec* uneven =
      all.layout()->arena().spec(all.layout(), {Placement::shard(0), Placement::shard(0)}, meta);
  CHECK(bytes_between(*uneven, *flat->arena().spec(flat, {Placement::shard(0)}, meta)) == 16);
  all.run([&](RankContext& rank) {
    rank.meshes->construct(flat);
    const Tensor piece = test::tensor({2, 2}, {1, 2, 3, 4}, DType::kF64);
    test::Seen seen;
    CHECK(redistribute_local(piece, both, one).storage() == piece.storage());
    const auto rows = std::min<std::int64_t>(2, 15 - 2 * rank.rank);
    const Tensor short_one =
        test::tensor({rows, 2}, Elements(2 * static_cast<std::size_t>(rows)), DType::kF64);
    CHECK(redistribute_local(short_one, near_both, near_one).storage() == short_one.storage());
    CHECK(seen.collectives.empty());
  });
}

TEST_CASE("R-45 parts of a mesh: each rank receives from its own part") {
  OnMesh all({2, 2});
  const MeshLayout* root = all.layout();
  const std::string last[] = {root->names()[1]};
  all.run([&](RankContext& rank) {
    const MeshLayout* part = slice_layout(root, last, rank.rank);
    rank.meshes->construct(part);
    const auto meta = contiguous_meta(Dims{2}, DType::kF64);
    const DTensorSpec* on_part = part->arena().spec(part, {Placement::shard(0)}, meta);
    const DTensorSpec* on_root =
        root->arena().spec(root, {Placement::replicate(), Placement::replicate()}, meta);
    const double row = static_cast<double>(rank.rank / 2),
                 place = static_cast<double>(rank.rank % 2);
    const Tensor piece = test::tensor({1}, {10 * row + place}, DType::kF64);
    const Tensor whole = redistribute_local(piece, on_part, on_root);
    CHECK(read_doubles(whole) == Elements{10 * row, 10 * row + 1});
    CHECK(read_doubles(redistribute_local(whole, on_root, on_part)) == Elements{10 * row + place});
  });
}

}  // namespace
}  // namespace shardlab
