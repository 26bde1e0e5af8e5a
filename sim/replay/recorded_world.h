// recorded_world.h - the ranks of a recording, which play its graph at the same time.
#pragma once

#include <memory>
#include <vector>

#include "mesh/spec.h"
#include "propagate/propagator.h"
#include "sim/replay/played_graph.h"
#include "sim/world/world.h"
#include "trace/replay.h"

namespace shardlab {

class Watch;

/// The choices for a replay.
struct ReplaySettings {
  std::int64_t most_bytes;  ///< of the memory of all ranks
  SchedulerOptions schedule = {};
  FabricLog* log = nullptr;  ///< of calls; may be null
};
ReplaySettings replay_settings();

/// Devices, meshes and plans of one replay or several, one after the other. Values of ranks live at
/// most as long. Used by one thread.
class RecordedWorld {
 public:
  /// Fails with Unsupported for a mesh that is too large to run.
  RecordedWorld(const RecordedProgram& program, const ReplaySettings& settings);
  ~RecordedWorld();
  RecordedWorld(const RecordedWorld&) = delete;
  RecordedWorld& operator=(const RecordedWorld&) = delete;

  /// The ranks that are played: with shapes alone the first one.
  std::size_t ranks() const { return ranks_; }
  /// The mesh of all ranks.
  const MeshLayout* mesh() const { return mesh_; }
  Device& device() const { return device_ ? *device_ : *own_; }

  /// Plays the graph on every rank, each with the watch of its number. The outcome has failures
  /// that ended the world.
  WorldResult play(const PlayedGraph& graph, const std::vector<Watch*>& watches);

 private:
  void play_on_rank(const PlayedGraph& graph, Watch& watch);

  const RecordedProgram& program_;
  std::size_t ranks_;
  Arena arena_;
  const MeshLayout* mesh_ = nullptr;
  std::unique_ptr<Device> own_, device_;
  Propagator propagator_;
  std::unique_ptr<World> world_;
};

}  // namespace shardlab
