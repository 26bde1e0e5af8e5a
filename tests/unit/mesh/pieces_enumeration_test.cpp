// Pieces of specs against an enumeration of elements: each tensor dim is a list of its indices, and
// a cut takes entries of the list, one by one, as the rule says. The list knows nothing of runs,
// offsets or nested chunks, so that every spec of a small mesh can be compared with it.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "mesh/local_shape.h"
#include "mesh/spec.h"

using namespace shardlab;

namespace {

using Indices = std::vector<std::int64_t>;

/// torch.chunk's piece for the rank at `index`: entries of the list in groups of ceil(size /
/// count).
Indices chunk_of_list(const Indices& list, std::int64_t count, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.size());
  std::int64_t group = 0;
  while (group * count < size) ++group;
  Indices mine;
  for (std::int64_t i = 0; i < size; ++i) {
    if (group > 0 && i / group == index) mine.push_back(list[static_cast<std::size_t>(i)]);
  }
  return mine;
}

Indices cut_list(const Indices& list, const Placement& placement, std::int64_t count,
                 std::int64_t index) {
  if (!placement.is_strided_shard()) return chunk_of_list(list, count, index);
  Indices mine;
  for (std::int64_t chunk = 0; chunk < placement.split_factor; ++chunk) {
    const Indices part =
        chunk_of_list(chunk_of_list(list, placement.split_factor, chunk), count, index);
    mine.insert(mine.end(), part.begin(), part.end());
  }
  return mine;
}

/// The indices of `tensor_dim` that the rank at `at` holds, cut after cut.
Indices enumerated(const DTensorSpec& spec, const Coordinate& at, std::size_t tensor_dim) {
  Indices list(static_cast<std::size_t>(spec.shape()[tensor_dim]));
  std::iota(list.begin(), list.end(), 0);
  for (std::int32_t place = 0; place < static_cast<std::int32_t>(at.size()); ++place) {
    for (std::size_t mesh_dim = 0; mesh_dim < at.size(); ++mesh_dim) {
      const Placement& placement = spec.placement(mesh_dim);
      if (!placement.is_shard(static_cast<std::int64_t>(tensor_dim))) continue;
      if (spec.order()[mesh_dim] != place) continue;
      list = cut_list(list, placement, spec.layout()->size(mesh_dim), at[mesh_dim]);
    }
  }
  return list;
}

Indices indices_of_map(const DimMap& map) {
  Indices indices;
  for (std::int64_t i = 0; i < map.local_size(); ++i) indices.push_back(map.global_index(i));
  return indices;
}

/// Every way to choose one of `kinds` for each of `mesh_dims` mesh dims.
std::vector<Placements> all_placements(const std::vector<Placement>& kinds, std::size_t mesh_dims) {
  std::vector<Placements> all{Placements{}};
  for (std::size_t mesh_dim = 0; mesh_dim < mesh_dims; ++mesh_dim) {
    std::vector<Placements> longer;
    for (const Placements& placements : all) {
      for (const Placement& kind : kinds) {
        longer.push_back(placements);
        longer.back().push_back(kind);
      }
    }
    all = std::move(longer);
  }
  return all;
}

void check_rank(const DTensorSpec& spec, const Coordinate& at) {
  const Dims shape = local_shape(spec, at);
  const Dims offset = local_offset(spec, at);
  const LocalView view = local_view(spec, at);
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    CAPTURE(dim);
    const Indices expected = enumerated(spec, at, dim);
    const std::int64_t first = expected.empty() ? spec.shape()[dim] : expected[0];
    CHECK(shape[dim] == static_cast<std::int64_t>(expected.size()));
    CHECK(offset[dim] == first);
    CHECK(local_chunk(spec, at, dim) == Chunk{shape[dim], first});
    CHECK(indices_of_map(view.dims[dim]) == expected);
  }
}

/// The number of ranks that hold the element at `index`.
std::int64_t holders(const DTensorSpec& spec, const Dims& index) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    count += local_view(spec, spec.layout()->coordinate_at_index(i)).holds(index) ? 1 : 0;
  }
  return count;
}

std::vector<ShardOrder> all_orders(const Placements& placements) {
  std::vector<std::int32_t> places(placements.size());
  std::iota(places.begin(), places.end(), 0);
  std::vector<ShardOrder> orders;
  do {
    ShardOrder order(placements.size(), -1);
    for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
      if (!placements[mesh_dim].is_shard()) continue;
      order[mesh_dim] = 0;
      for (std::size_t other = 0; other < placements.size(); ++other) {
        const bool before = placements[other].is_shard(placements[mesh_dim].dim) &&
                            places[other] < places[mesh_dim];
        order[mesh_dim] += before ? 1 : 0;
      }
    }
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(order);
  } while (std::next_permutation(places.begin(), places.end()));
  return orders;
}

}  // namespace

TEST_CASE("K-1 K-19 every spec of small meshes holds what cutting lists of indices gives") {
  const std::vector<Placement> kinds{Placement::replicate(),
                                     Placement::shard(0),
                                     Placement::shard(1),
                                     Placement::strided_shard(0, 2),
                                     Placement::strided_shard(1, 3),
                                     Placement::partial()};
  struct Row {
    Dims mesh, shape;
  };
  const Row rows[] = {
      {{3}, {7, 5}}, {{2, 2}, {5, 7}}, {{3, 2}, {1, 9}}, {{2, 3}, {8, 0}}, {{4, 1}, {6, 10}}};
  for (const Row& row : rows) {
    Arena arena;
    const MeshLayout* layout = arena.layout({row.mesh, {}, {}});
    for (const Placements& placements : all_placements(kinds, row.mesh.size())) {
      const auto* spec = arena.spec(layout, placements, contiguous_meta(row.shape, DType::kF32));
      CAPTURE(layout->text());
      CAPTURE(to_string(placements));
      for (std::int64_t i = 0; i < layout->size(); ++i) {
        CAPTURE(i);
        check_rank(*spec, layout->coordinate_at_index(i));
      }
    }
  }
}

TEST_CASE("M-9 K-1 every cutting order of three mesh dims holds what cutting lists gives") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 3, 2}, {}, {}});
  const std::vector<Placement> kinds{Placement::shard(0), Placement::shard(1),
                                     Placement::replicate()};
  std::size_t orders = 0;
  for (const Dims& shape : {Dims{13, 4}, Dims{5, 0}}) {
    for (const Placements& placements : all_placements(kinds, 3)) {
      for (const ShardOrder& order : all_orders(placements)) {
        ++orders;
        const auto* spec =
            arena.spec(layout, placements, order, contiguous_meta(shape, DType::kF32));
        CAPTURE(order_text(placements, order));
        for (std::int64_t i = 0; i < layout->size(); ++i) {
          CAPTURE(i);
          check_rank(*spec, layout->coordinate_at_index(i));
        }
      }
    }
  }
  // 2 of 27 placings cut one dim three times (6 orders), 12 one dim twice (2 orders), 13 neither.
  CHECK(orders == 2 * (2 * 6 + 12 * 2 + 13));
}

TEST_CASE("K-1 each element lies on as many ranks as the mesh dims that do not cut multiply to") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 3}, {}, {}});
  const std::vector<Placement> kinds{Placement::replicate(), Placement::shard(0),
                                     Placement::shard(1), Placement::strided_shard(1, 2)};
  for (const Placements& placements : all_placements(kinds, 2)) {
    const auto* spec = arena.spec(layout, placements, contiguous_meta(Dims{3, 7}, DType::kF32));
    CAPTURE(to_string(placements));
    std::int64_t copies = 1;
    for (std::size_t mesh_dim = 0; mesh_dim < 2; ++mesh_dim) {
      if (placements[mesh_dim].is_replicate()) copies *= layout->size(mesh_dim);
    }
    for (std::int64_t row = 0; row < 3; ++row) {
      for (std::int64_t column = 0; column < 7; ++column) {
        CHECK(holders(*spec, {row, column}) == copies);
      }
    }
  }
}

TEST_CASE(
    "K-19 an order and its strided form hold the same elements where the dim divides evenly") {
  Arena arena;
  const Dims mesh{2, 3, 2};
  const MeshLayout* layout = arena.layout({mesh, {}, {}});
  const TensorMeta meta = contiguous_meta(Dims{24}, DType::kF32);
  const Placements all(3, Placement::shard(0));
  for (const ShardOrder& order : all_orders(all)) {
    CAPTURE(order_text(all, order));
    const auto* ordered = arena.spec(layout, all, order, meta);
    const auto* strided = arena.spec(layout, encode_strided(all, order, mesh), meta);
    for (std::int64_t i = 0; i < layout->size(); ++i) {
      const Coordinate at = layout->coordinate_at_index(i);
      CHECK(indices_of_map(local_view(*strided, at).dims[0]) ==
            indices_of_map(local_view(*ordered, at).dims[0]));
    }
    const auto decoded = decode_strided(strided->placements(), mesh);
    REQUIRE(decoded.has_value());
    CHECK(decoded->placements == all);
    CHECK(decoded->order == order);
  }
}

TEST_CASE("local strides: the elements of a piece lie in memory in the order of the whole") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 3}, {}, {}});
  const Dims shape{4, 5, 6};
  Indices dims{0, 1, 2};
  do {
    TensorMeta meta{shape, Dims(3), DType::kF32};
    std::int64_t step = 1;
    for (const std::int64_t dim : dims) {
      meta.stride[static_cast<std::size_t>(dim)] = step;
      step *= shape[static_cast<std::size_t>(dim)];
    }
    const auto* spec = arena.spec(layout, {Placement::shard(1), Placement::shard(2)}, meta);
    for (std::int64_t i = 0; i < layout->size(); ++i) {
      const TensorMeta piece = local_meta(*spec, layout->coordinate_at_index(i));
      CAPTURE(i);
      std::int64_t expected = 1;  // dense: each dim steps over all of the dims inside of it
      for (const std::int64_t dim : dims) {
        CHECK(piece.stride[static_cast<std::size_t>(dim)] == expected);
        expected *= piece.shape[static_cast<std::size_t>(dim)];
      }
    }
  } while (std::next_permutation(dims.begin(), dims.end()));
}

TEST_CASE("global_meta is the inverse of local_meta for even pieces in any memory order") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 3}, {}, {}});
  const Dims strides[] = {{60, 10, 1}, {1, 12, 60}, {5, 1, 60}, {10, 120, 1}};
  const Dims shapes[] = {{12, 6, 10}, {12, 5, 6}, {12, 5, 6}, {12, 6, 10}};
  const std::vector<Placement> kinds{Placement::replicate(), Placement::shard(0)};
  for (std::size_t row = 0; row < 4; ++row) {
    CAPTURE(row);
    const TensorMeta meta{shapes[row], strides[row], DType::kF32};
    for (const Placements& placements : all_placements(kinds, 2)) {
      CAPTURE(to_string(placements));
      const auto* spec = arena.spec(layout, placements, meta);
      const TensorMeta back = global_meta(*layout, placements, local_meta(*spec, {0, 0}));
      CHECK(back.shape == meta.shape);
      CHECK(back.stride == meta.stride);
      CHECK(back.dtype == DType::kF32);
    }
  }
}

TEST_CASE("global_meta refuses a cut of a dim that the pieces do not have, and says which exist") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2}, {}, {}});
  struct Row {
    Dims shape;
    std::int64_t dim;
    const char *summary, *fix;
  };
  const Row rows[] = {
      {{4, 6},
       2,
       "placement S(2) shards a dim that a tensor of 2 dims does not have",
       "cut one of its dims: S(0) to S(1)"},
      {{4},
       -1,
       "placement S(-1) shards a dim that a tensor of 1 dims does not have",
       "cut its only dim: S(0)"},
      {{},
       0,
       "placement S(0) shards a dim that a tensor of 0 dims does not have",
       "a tensor without dims is R or partial"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.summary);
    try {
      global_meta(*layout, {Placement::shard(row.dim)}, contiguous_meta(row.shape, DType::kF32));
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kValue);
      CHECK(error.summary() == row.summary);
      REQUIRE(error.find("fix") != nullptr);
      CHECK(*error.find("fix") == row.fix);
    }
  }
}
