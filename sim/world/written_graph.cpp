// A recorder runs around the body of each rank. The first mesh that the program makes is the mesh
// of the graph; a program without one has its ranks in a row.
#include "sim/world/written_graph.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fix.h"
#include "base/policies.h"
#include "plan/plan.h"
#include "sim/world/backends.h"
#include "sim/world/world.h"
#include "trace/compare_graphs.h"
#include "trace/graph_json.h"
#include "trace/recorder.h"

namespace shardlab {

namespace {

const char* graph_variable() { return std::getenv("SHARDLAB_GRAPH"); }

}  // namespace

bool WrittenGraph::wanted() {
  const char* path = graph_variable();
  return path != nullptr && *path != '\0';
}

WrittenGraph::WrittenGraph(const WorldOptions& options) : path_(graph_variable()) {
  if (find_backend(options.backend).processes == nullptr) return;
  fail(ErrorKind::kUnsupported, Fix{"run it on backend threads"},
       "SHARDLAB_GRAPH={}: a graph is written by one process, and backend {} has one for each rank",
       path_, options.backend);
}

void WrittenGraph::run(RankContext& rank, const std::function<void(RankContext&)>& body) {
  Recorder recorder(program_calls(), nullptr);
  recorder.note_cpp_places();
  const auto keep = [&](ProgramGraph graph) {
    graph.policies.implicit = policy_name(rank.implicit);
    graph.policies.mixed = policy_name(rank.mixed);
    const PlanCache* plans = rank.plans;
    if (plans != nullptr && plans->options().planner) {
      graph.policies.planner = to_string(*plans->options().planner);
    }
    const std::lock_guard lock(mutex_);
    graphs_.push_back(std::move(graph));
  };
  try {
    const ObserverScope observed(recorder.listen(observer_to_tell()));
    const ProgramScope scope(recorder);
    body(rank);
  } catch (...) {
    keep(recorder.broken_off());
    throw;
  }
  keep(recorder.finish());
}

void WrittenGraph::write() {
  std::ranges::sort(graphs_, {}, [](const ProgramGraph& graph) { return graph.ranks.front(); });
  std::vector<std::int64_t> ranks;
  for (ProgramGraph& graph : graphs_) {
    ranks.push_back(graph.ranks.front());
    graph.title = std::filesystem::path(path_).stem().string();
    if (graph.meshes.empty()) graph.meshes.push_back({.names = {"world"}, .shape = {graph.world}});
  }
  std::vector<ProgramGraph> classes = joined(std::move(graphs_), ranks);
  if (classes.size() == 1) classes.front().ranks.clear();
  std::ofstream file(path_);
  for (const ProgramGraph& graph : classes) file << graph_json(graph);
  if (file.flush()) return;
  fail(ErrorKind::kValue, Fix{"name a file in a folder that is there"},
       "SHARDLAB_GRAPH={}: the file cannot be written", path_);
}

}  // namespace shardlab
