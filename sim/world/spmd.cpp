// Defaults around run_world(): all ops, the default planner and one device for all ranks of the
// process, which lives as long as the process because tensors may outlive a run.
#include "sim/world/spmd.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/process/control_channel.h"
#include "base/error.h"
#include "base/policies.h"
#include "base/rank_context.h"
#include "dispatch/all_ops.h"
#include "plan/plan.h"
#include "propagate/propagator.h"
#include "schema/op_registry.h"
#include "sim/world/backends.h"
#include "sim/world/devices.h"
#include "sim/world/last_words.h"
#include "sim/world/rank_life.h"
#include "trace/compare_graphs.h"
#include "trace/graph.h"
#include "trace/graph_json.h"
#include "trace/recorder.h"

namespace shardlab {

namespace {

// A recorder runs around the body of each rank. The first mesh that the program makes is the mesh
// of the graph; a program without one has its ranks in a row.

const char* graph_variable() { return std::getenv("SHARDLAB_GRAPH"); }

/// The graph that one run of a world writes.
class WrittenGraph {
 public:
  /// To the file that SHARDLAB_GRAPH names.
  ///   fails  Unsupported: ranks are processes
  explicit WrittenGraph(const WorldOptions& options) : path_(graph_variable()) {
    if (find_backend(options.backend).processes == nullptr) return;
    fail(ErrorKind::kUnsupported, Fix{"run it on backend threads"},
         "SHARDLAB_GRAPH={}: a graph is written by one process, and backend {} has one for each "
         "rank",
         path_, options.backend);
  }

  /// Whether SHARDLAB_GRAPH asks for one.
  static bool wanted() {
    const char* path = graph_variable();
    return path != nullptr && *path != '\0';
  }

  /// Runs the body on its rank, and records it up to its end or its failure.
  void run(RankContext& rank, const std::function<void(RankContext&)>& body) {
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
  /// Once the run is over.
  ///   fails  Value: the file cannot be written
  void write() {
    std::ranges::sort(graphs_, {}, [](const ProgramGraph& graph) { return graph.ranks.front(); });
    std::vector<std::int64_t> ranks;
    for (ProgramGraph& graph : graphs_) {
      ranks.push_back(graph.ranks.front());
      graph.title = std::filesystem::path(path_).stem().string();
      if (graph.meshes.empty())
        graph.meshes.push_back({.names = {"world"}, .shape = {graph.world}});
    }
    std::vector<ProgramGraph> classes = joined(std::move(graphs_), ranks);
    if (classes.size() == 1) classes.front().ranks.clear();
    std::ofstream file(path_);
    for (const ProgramGraph& graph : classes) file << graph_json(graph);
    if (file.flush()) return;
    fail(ErrorKind::kValue, Fix{"name a file in a folder that is there"},
         "SHARDLAB_GRAPH={}: the file cannot be written", path_);
  }

 private:
  std::string path_;
  std::mutex mutex_;
  std::vector<ProgramGraph> graphs_;
};

// Tensors that outlive a run point to it, so it lives as long as the process.
Device& device_of_type(const std::string& type, const std::string& backend) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Device>> devices;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Device>& device = devices[type];
  if (device == nullptr) device = make_device({.name = type}, backend);
  return *device;
}

// Throws the ranks' errors, with the options that run them in this order again.
void rethrow(const WorldResult& result, const SchedulerOptions& schedule) {
  try {
    result.rethrow();
  } catch (Error& error) {
    if (schedule.kind != SchedulerKind::kSeeded) throw;
    throw error.with("schedule", fmt::format("seeded, seed {}", schedule.seed));
  }
}

}  // namespace

void spmd(std::int64_t world_size, const std::function<void(RankContext&)>& body) {
  WorldOptions options;
  options.ranks = world_size;
  spmd(std::move(options), body);
}

void spmd(std::int64_t world_size, const OpRegistry& ops,
          const std::function<void(RankContext&)>& body) {
  Propagator propagator(ops, PlanOptions{});
  WorldOptions options;
  options.ranks = world_size;
  options.propagator = &propagator;
  spmd(std::move(options), body);
}

std::unique_ptr<const OpRegistry> ops_with(const std::function<void(OpRegistry&)>& extend) {
  auto ops = std::make_unique<OpRegistry>();
  register_all_ops(*ops);
  extend(*ops);
  return ops;
}

void spmd(WorldOptions options, const std::function<void(RankContext&)>& body) {
  const SchedulerOptions schedule = options.schedule;
  rethrow(try_spmd(std::move(options), body), schedule);
}

int run_main(int argc, char** argv, WorldOptions defaults,
             const std::function<void(RankContext&)>& body) {
  constexpr int kFailed = 1, kCannotRun = 2;
  process::ControlChannel* channel = nullptr;
  WorldResult result;
  int code = kCannotRun;
  std::string text;
  try {
    WorldOptions options = options_from(argc, argv, std::move(defaults));
    channel = channel_of(options.backend);
    const SchedulerOptions schedule = options.schedule;
    result = try_spmd(std::move(options), body);
    if (result.ok()) return 0;
    code = only_by_others(channel, result.verdict) ? kOnlyByOthers : kFailed;
    rethrow(result, schedule);
  } catch (const Error& error) {
    text = error.text();
  } catch (const std::exception& error) {
    text = result.ok() ? error.what() : result.merged().text();
  } catch (...) {
    text = result.ok() ? kUnknownException : result.merged().text();
  }
  // The others may not have begun.
  const bool alone = code == kCannotRun;
  say_last_words(channel, text, result.verdict,
                 alone ? text.substr(0, text.find('\n')) : std::string());
  return code;
}

WorldResult try_spmd(WorldOptions options, const std::function<void(RankContext&)>& body) {
  std::unique_ptr<Propagator> propagator;
  if (options.propagator == nullptr) {
    propagator = std::make_unique<Propagator>(all_ops(), PlanOptions{});
    options.propagator = propagator.get();
  }
  if (options.plans == nullptr) options.plans = &options.propagator->plans();
  std::unique_ptr<SharingDevice> sharing;
  if (!options.device) {
    Device& own = device_of_type(options.device_type, options.backend);
    const bool shares = options.sharing == KernelSharing::kOn && options.ranks > 1;
    if (shares && can_share_kernels(options.backend)) {
      sharing = std::make_unique<SharingDevice>(own, options.ranks);
    }
    Device& device = sharing ? static_cast<Device&>(*sharing) : own;
    options.device = [&device](std::int64_t) -> Device& { return device; };
  }
  if (options.schedule.workers == 0) {
    options.schedule.workers = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  }
  if (!WrittenGraph::wanted()) return run_world(std::move(options), body);
  WrittenGraph graph(options);
  WorldResult result =
      run_world(std::move(options), [&](RankContext& rank) { graph.run(rank, body); });
  graph.write();
  return result;
}

}  // namespace shardlab
