#include "tests/conformance/setting.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "backends/process/control_channel.h"
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

struct Stage {
  WorldOptions options;
  std::int64_t processes = 0;  ///< of the job; 0: all ranks share one
};

// "backend/how"
Stage current_stage() {
  const char* named = std::getenv("SHARDLAB_STAGE");
  const std::string text = named == nullptr ? "threads" : named;
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string how = text.substr(std::min(slash + 1, text.size()));
  Stage stage;
  stage.options = plain_world(1);
  stage.options.backend = text.substr(0, slash);
  const BackendEntry& backend = find_backend(stage.options.backend);
  if (backend.processes == nullptr) {
    const std::size_t dash = std::min(how.find('-'), how.size());
    const std::string scheduler = how.empty() ? "pool" : how.substr(0, dash);
    stage.options.schedule.kind = parse_scheduler(scheduler).value();
    if (dash < how.size()) stage.options.schedule.workers = std::stoul(how.substr(dash + 1));
    return stage;
  }
  if (how == "checked") stage.options.checks = CollectiveChecks::kOn;
  stage.processes = backend.processes->join().size();
  return stage;
}

WorldOptions world_on(const Stage& stage, std::int64_t ranks) {
  WorldOptions options = stage.options;
  options.ranks = ranks;
  return options;
}

std::vector<std::int64_t> sizes_of(const Stage& stage) {
  if (stage.processes > 0) return {stage.processes};
  return {2, 3, 8};
}

// tests/conformance/table.py reads this.
void skip(const std::string& reason) {
  const std::string name = doctest::getContextOptions()->currentTest->m_name;
  MESSAGE("skipped: ", name, ": ", reason);
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

void on_all_groups(const std::function<void(const Seat&)>& body) {
  const Stage stage = current_stage();
  const std::vector<std::int64_t> worlds =
      stage.processes > 0 ? std::vector{stage.processes} : std::vector<std::int64_t>{1, 2, 3, 8};
  for (const std::int64_t world : worlds) {
    const MeshLayout* grid = process_arena().layout(grid_of(world));
    const MeshLayout* permuted = process_arena().layout(permuted_of(world));
    on_ranks(world_on(stage, world), [&](RankContext& rank) {
      ProcessGroup& all = *rank.world;
      body({all, all.rank(), all.size(), all.ranks()});
      on_mesh(rank, grid, body);
      on_mesh(rank, permuted, body);
    });
  }
}

void on_world_of(std::int64_t ranks, const std::function<void(RankContext&)>& body) {
  const Stage stage = current_stage();
  if (stage.processes > 0 && stage.processes != ranks) {
    return skip("needs a job of " + std::to_string(ranks) + " processes");
  }
  on_ranks(world_on(stage, ranks), body);
}

void on_all_worlds(const std::function<void(RankContext&)>& body) {
  const Stage stage = current_stage();
  for (const std::int64_t ranks : sizes_of(stage)) on_ranks(world_on(stage, ranks), body);
}

void on_failing_worlds(const std::function<void(RankContext&)>& body,
                       const std::function<void(std::int64_t, const WorldResult&)>& check) {
  const Stage stage = current_stage();
  for (const std::int64_t ranks : sizes_of(stage)) {
    CAPTURE(ranks);
    check(ranks, run_world(world_on(stage, ranks), body));
    // A failure ends with its run.
    on_ranks(world_on(stage, ranks), [](RankContext& rank) { rank.world->barrier(); });
  }
}

bool calls_are_compared() {
  const Stage stage = current_stage();
  if (stage.processes == 0 || stage.options.checks == CollectiveChecks::kOn) return true;
  skip("processes compare calls only when they are told to");
  return false;
}

bool passes_messages() { return current_stage().options.backend != "nccl" || calls_are_compared(); }

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
