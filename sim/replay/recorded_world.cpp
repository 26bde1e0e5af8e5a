// Equal kernels on replicas run once. With shapes alone no data is exchanged, so that one rank
// needs no others: a call of thousands of ranks would otherwise be a world of all classes of ranks.
#include "sim/replay/recorded_world.h"

#include "backends/fake/communicator.h"
#include "backends/fake/shape_device.h"
#include "base/error.h"
#include "comm/device_mesh.h"
#include "dispatch/all_ops.h"
#include "sim/world/devices.h"
#include "sim/world/rank_life.h"
#include "trace/graph_meshes.h"

namespace shardlab {

ReplaySettings replay_settings() { return {.most_bytes = machine_bytes()}; }

RecordedWorld::RecordedWorld(const RecordedProgram& program, const ReplaySettings& settings)
    : program_(program),
      ranks_(program.shapes_only ? 1 : program.ranks),
      propagator_(all_ops(), PlanOptions{}) {
  const GraphMesh& mesh = program.meshes.at(0);
  mesh_ = arena_.layout({.shape = mesh.shape, .names = mesh.names, .ranks = {}});
  DeviceChoice choice;
  choice.most_bytes = settings.most_bytes;
  own_ = program.shapes_only ? make_shape_device() : make_device(choice, "threads");
  if (!program.shapes_only && ranks_ > 1) {
    device_ = std::make_unique<SharingDevice>(*own_, static_cast<std::int64_t>(ranks_));
  }
  WorldOptions options;
  options.ranks = mesh_->size();
  options.schedule = settings.schedule;
  options.log = settings.log;
  options.device = [this](std::int64_t) -> Device& { return device(); };
  options.propagator = &propagator_;
  options.plans = &propagator_.plans();
  options.mixed = MixedTensors::kReplicate;  // as under implicit_replication()
  world_ = std::make_unique<World>(std::move(options));
}

RecordedWorld::~RecordedWorld() = default;

void RecordedWorld::play_on_rank(const PlayedGraph& graph, Watch& watch) {
  RankContext& rank = current_rank();
  GraphMeshes meshes(graph.graph.meshes, rank.rank, arena_);
  for (std::int32_t mesh = 0; mesh < std::ssize(graph.graph.meshes); ++mesh) {
    rank.meshes->construct(meshes.layout(mesh));
    const GraphMesh& made = graph.graph.meshes[static_cast<std::size_t>(mesh)];
    if (!made.flattened) continue;
    const MeshLayout* base = meshes.layout(made.base);
    std::vector<std::size_t> dims;
    for (const std::string& dim : made.part) dims.push_back(*base->find_dim(dim));
    rank.meshes->flatten(base, dims);
  }
  std::optional<ObserverScope> observed;
  if (Observer* observer = watch.observer()) observed.emplace(*observer);
  replay(graph.graph, arena_, {}, {.listener = &watch, .recorded = true});
}

WorldResult RecordedWorld::play(const PlayedGraph& graph,
                                const std::function<Watch&(std::size_t)>& watch_of) {
  if (!program_.shapes_only) {
    return world_->run(
        [&](RankContext&, const RunsFor& runs) { play_on_rank(graph, watch_of(runs.index)); });
  }
  fake::LengthsTable lengths;
  fake::ClassContext place{.layout = mesh_,
                           .world_size = mesh_->size(),
                           .rank = 0,
                           .log = std::make_shared<fake::ClassLog>(),
                           .lengths = &lengths,
                           .nothing = make_ref<Storage>(own_->allocate(0)),
                           .stop = nullptr,
                           .ask = [](const auto&) {}};
  RankLife life(world_->options(), 0, 0, own_.get(), nullptr);
  const RankOutcome outcome = life.run([&] { return fake::make_world_communicator(place); },
                                       [&](RankContext&) { play_on_rank(graph, watch_of(0)); });
  WorldResult result;
  if (outcome.error) result.failures.push_back({.rank = 0, .error = *outcome.error});
  return result;
}

}  // namespace shardlab
