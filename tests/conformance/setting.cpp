#include "tests/conformance/setting.h"

#include "comm/device_mesh.h"
#include "mesh/spec.h"
#include "tests/support/on_ranks.h"

namespace shardlab {

namespace {

MeshLayout::Init grid_of(std::int64_t world) {
  if (world == 8) return {.shape = {2, 4}, .names = {"x", "y"}};
  if (world == 3) return {.shape = {1, 3}, .names = {"x", "y"}};
  return {.shape = {world}, .names = {"x"}};
}

// Ranks 6, 0, 5, 3, 1 of 8; 2, 0 of 3; 1, 0 of 2.
MeshLayout::Init permuted_of(std::int64_t world) {
  if (world == 8) return {.shape = {5}, .names = {"p"}, .ranks = {6, 0, 5, 3, 1}};
  if (world == 3) return {.shape = {2}, .names = {"p"}, .ranks = {2, 0}};
  if (world == 2) return {.shape = {2}, .names = {"p"}, .ranks = {1, 0}};
  return {.shape = {1}, .names = {"p"}};
}

void on_mesh(RankContext& rank, const MeshLayout* layout,
             const std::function<void(const Seat&)>& body) {
  const DeviceMesh& mesh = rank.meshes->construct(layout);
  if (!mesh.participates()) return;
  for (std::size_t dim = 0; dim < layout->ndim(); ++dim) {
    ProcessGroup& group = mesh.group(dim);
    body({group, group.rank(), group.size(), group.ranks()});
  }
}

}  // namespace

namespace {

void on_groups_of(const WorldOptions& world, const std::function<void(const Seat&)>& body) {
  const MeshLayout* grid = process_arena().layout(grid_of(world.ranks));
  const MeshLayout* permuted = process_arena().layout(permuted_of(world.ranks));
  on_ranks(world, [&](RankContext& rank) {
    ProcessGroup& all = *rank.world;
    body({all, all.rank(), all.size(), all.ranks()});
    on_mesh(rank, grid, body);
    on_mesh(rank, permuted, body);
  });
}

}  // namespace

void on_all_groups(SchedulerKind scheduler, const std::function<void(const Seat&)>& body) {
  for (const std::int64_t ranks : {1, 2, 3, 8}) {
    WorldOptions world = plain_world(ranks, scheduler);
    on_groups_of(world, body);
    if (scheduler != SchedulerKind::kPool) continue;
    world.schedule.workers = 3;
    on_groups_of(world, body);
  }
}

std::vector<std::int64_t> lengths_of(std::string_view kind, std::int64_t size) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size), 0);
  for (std::int64_t i = 0; i < size; ++i) {
    std::int64_t& length = lengths[static_cast<std::size_t>(i)];
    if (kind == "even") length = 3;
    if (kind == "uneven") length = (i * 2 + 1) % 4 == 3 ? 0 : i + 1;
    if (kind == "one") length = i == size - 1 ? 5 : 0;
  }
  return lengths;
}

}  // namespace shardlab
