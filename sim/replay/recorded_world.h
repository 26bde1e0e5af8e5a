// recorded_world.h - the ranks of a recording, which play its graph at the same time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "mesh/spec.h"
#include "propagate/propagator.h"
#include "sim/replay/watch.h"
#include "sim/world/world.h"

namespace shardlab {

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
  RecordedWorld& operator=(RecordedWorld&&) = delete;

  /// The ranks that are played: with shapes alone the first one.
  std::size_t ranks() const { return ranks_; }
  Device& device() const { return device_ ? *device_ : *own_; }

  /// A watch of each rank that is played; `more`: what its constructor takes behind the place.
  template <typename T>
  std::vector<std::unique_ptr<T>> watches(const PlayedGraph& graph, SeenTable& seen,
                                          auto&... more) const {
    std::vector<std::unique_ptr<T>> all;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      all.push_back(std::make_unique<T>(WatchPlace{program_, graph, seen, mesh_, rank}, more...));
    }
    return all;
  }

  /// Plays the graph on every rank, each with its watch. The outcome has failures that ended the
  /// world.
  template <typename T>
  WorldResult play(const PlayedGraph& graph, const std::vector<std::unique_ptr<T>>& watches) {
    return play(graph, [&](std::size_t rank) -> Watch& { return *watches.at(rank); });
  }

 private:
  WorldResult play(const PlayedGraph& graph, const std::function<Watch&(std::size_t)>& watch_of);
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
