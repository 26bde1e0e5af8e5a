// written_graph.h - the calls of a C++ program as a graph in a file, for `shardlab shrink`, `blame`
// and `trace`: of a program that ends, fails or waits for ever.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/rank_context.h"
#include "trace/graph.h"

namespace shardlab {

struct WorldOptions;

/// The graph that one run of a world writes.
class WrittenGraph {
 public:
  /// To the file that SHARDLAB_GRAPH names.
  ///   fails  Unsupported: ranks are processes
  explicit WrittenGraph(const WorldOptions& options);

  /// Whether SHARDLAB_GRAPH asks for one.
  static bool wanted();

  /// Runs the body on its rank, and records it up to its end or its failure.
  void run(RankContext& rank, const std::function<void(RankContext&)>& body);
  /// Once the run is over.
  ///   fails  Value: the file cannot be written
  void write();

 private:
  std::string path_;
  std::mutex mutex_;
  std::vector<ProgramGraph> graphs_;
};

}  // namespace shardlab
