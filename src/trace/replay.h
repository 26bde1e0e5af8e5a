// replay.h - runs a graph on the running rank, through the rank's calls as its program did (T-58):
// the same dispatcher, the same tape, the same backend. Everything here is used by its rank alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "mesh/dtensor.h"
#include "schema/argument.h"
#include "trace/graph.h"

namespace shardlab {

class Arena;

/// A replay while it runs, as a listener sees it.
class ReplayState {
 public:
  virtual ~ReplayState() = default;
  /// Those of the graph by number; undefined where one does not exist yet, or is not needed any
  /// more.
  virtual const std::vector<DTensor>& values() const = 0;
  /// From now on this is the value of the number.
  virtual void put(ValueRef number, DTensor value) = 0;
  /// The results of a node with the present values, which do not become values.
  ///   fails  as the node does
  virtual Results again(std::size_t node) = 0;
};

/// Called for each node, and may step in.
class ReplayListener {
 public:
  virtual ~ReplayListener() = default;
  /// Before the node runs. False: it does not run, and its results are those that were put.
  virtual bool begins(std::size_t node, ReplayState& state) {
    return static_cast<void>(node), static_cast<void>(state), true;
  }
  /// Runs an op in a way of its own, and gives its results. Empty: the replay runs it.
  virtual std::optional<Results> run(std::size_t node, const Arguments& args) {
    return static_cast<void>(node), static_cast<void>(args), std::nullopt;
  }
  /// The results of a node, before they become values.
  virtual void made(std::size_t node, Results& results) {
    static_cast<void>(node), static_cast<void>(results);
  }
  /// A node failed. True: the replay goes on without its results, or with those that were put.
  virtual bool failed(std::size_t node, const Error& error, ReplayState& state) {
    return static_cast<void>(node), static_cast<void>(error), static_cast<void>(state), false;
  }
  /// After the node, whether it ran or not.
  virtual void ended(std::size_t node, ReplayState& state) {
    static_cast<void>(node), static_cast<void>(state);
  }
};

struct ReplayOptions {
  std::int64_t until = -1;             ///< the last node that runs; -1: all
  ReplayListener* listener = nullptr;  ///< may be null
  /// The program's file, for messages; outlives all reports on the replay. Null: the graph's.
  const char* file = nullptr;
  /// In place of the graph's, which begin as they were when it was captured; null where it stays.
  std::span<const Generator> generators = {};
  /// The graph is that of a recording: results that it does not name are dropped, a number may
  /// stand where an op takes a tensor, and nodes without a line keep the position of the rank.
  bool recorded = false;
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
