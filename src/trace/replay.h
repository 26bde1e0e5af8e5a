// replay.h - runs a graph on the running rank, through the rank's calls as its program did (T-58):
// the same dispatcher, the same tape, the same backend. Everything here is used by its rank alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mesh/dtensor.h"
#include "schema/argument.h"
#include "trace/graph.h"

namespace shardlab {

class Arena;

/// Called for each node before and after it runs. `values` are those of the graph by number, at
/// that time; undefined where one does not exist yet, or is not needed any more.
class ReplayListener {
 public:
  virtual ~ReplayListener() = default;
  virtual void begins(std::size_t node, const std::vector<DTensor>& values) {
    static_cast<void>(node), static_cast<void>(values);
  }
  virtual void ended(std::size_t node, const std::vector<DTensor>& values) {
    static_cast<void>(node), static_cast<void>(values);
  }
};

struct ReplayOptions {
  std::int64_t until = -1;             ///< the last node that runs; -1: all
  ReplayListener* listener = nullptr;  ///< may be null
  /// Of the program, for messages; outlives all reports on the replay. Null: the graph's.
  const char* file = nullptr;
  /// In place of the graph's, which begin as they were when it was captured; null where it stays.
  std::span<const Generator> generators = {};
};

/// The values left behind by a replay, as in graph.left.
struct Replayed {
  std::vector<DTensor> left;
  std::vector<DTensor> outputs;       ///< as graph.outputs has them
  std::vector<std::int64_t> numbers;  ///< those that follow from sizes, by number
  std::uint64_t digest = 0;           ///< of the bits of all of them; to compare with the graph's
  bool complete = true;               ///< false: it ended at `until`
};

/// `inputs`: one value for each input node, in their order, with the types of these. Meshes are
/// made in `arena`, which outlives the values.
///   fails  Value: a graph that is damaged, which names the node; elements that the program read
///          then are others now (T-6). Else as the nodes do: a node that failed when it was
///          captured has to fail again, else Assert.
Replayed replay(const ProgramGraph& graph, Arena& arena, std::span<const DTensor> inputs,
                const ReplayOptions& options = {});

/// The elements that a constant or a read node has on a rank.
///   fails  Value: the graph has none for it
const std::vector<Scalar>& data_on(const ProgramGraph& graph, const GraphNode& node,
                                   std::int64_t rank);

}  // namespace shardlab
