// Proofs, on simulated ranks, of answers that differ from recorded ones on purpose: the rows of
// tests/golden/known_differences.toml about layouts.
#include <doctest/doctest.h>

#include <numeric>

#include "comm/device_mesh.h"
#include "mesh/local_shape.h"
#include "mesh/mesh_views.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

std::vector<double> count_to(std::int64_t size) {
  std::vector<double> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

/// The elements of arange(size) that this rank holds as Shard(0) of a 1-d mesh.
Tensor own_piece(const DeviceMesh& mesh, std::int64_t size) {
  const Chunk chunk = chunk_of(size, mesh.layout()->size(), (*mesh.coordinate())[0]);
  std::vector<double> values = count_to(chunk.size);
  for (double& value : values) value += static_cast<double>(chunk.offset);
  return local_tensor({chunk.size}, DType::kF32, values);
}

/// All pieces of arange(size), gathered over the mesh's group.
std::vector<double> gathered(const DeviceMesh& mesh, std::int64_t size) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t index = 0; index < mesh.layout()->size(); ++index) {
    lengths.push_back(chunk_of(size, mesh.layout()->size(), index).size);
  }
  return values_of(mesh.group(0).all_gather(own_piece(mesh, size), 0, lengths));
}

}  // namespace

TEST_CASE("X-43 a group in the array's order gathers the right value, a sorted one would not") {
  Arena arena;
  const MeshLayout* reversed = arena.layout({{4}, {"x"}, {3, 2, 1, 0}});
  on_ranks(4, [&](RankContext& rank) {
    const DeviceMesh& mesh = rank.meshes->construct(reversed);
    CHECK(gathered(mesh, 7) == count_to(7));
    // The first piece that rank 0 would find in a sorted group: the last one, 6, instead of 0.
    if (rank.rank == 0) CHECK(values_of(own_piece(mesh, 7)) == std::vector<double>{6});
  });
}

TEST_CASE("X-43 a flattened mesh gathers in the array's order, which need not be sorted") {
  Arena arena;
  const MeshLayout* turned = arena.layout({{2, 2}, {"dp", "tp"}, {0, 2, 1, 3}});
  const std::vector<std::string> names{"dp", "tp"};
  const MeshLayout* flat = flatten_layout(turned, names, Coordinate{0, 0}, "");
  on_ranks(4, [&](RankContext& rank) {
    CHECK(gathered(rank.meshes->construct(flat), 5) == count_to(5));
  });
}

TEST_CASE("K-1 sizes that do not divide have pieces on every rank, also empty ones") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{4}, {"x"}, {}});
  on_ranks(4, [&](RankContext& rank) {
    for (const std::int64_t size : {0, 1, 2, 3, 5, 7}) {
      CHECK(gathered(rank.meshes->construct(layout), size) == count_to(size));
    }
  });
}
