// replay_run.h - a graph in place of a program: on the same worlds, devices and backends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/run/run.h"
#include "trace/compare_graphs.h"
#include "trace/replay.h"

namespace shardlab {

/// Options for running graphs, in addition to those of a run.
struct ReplayRunOptions {
  std::int64_t until = -1;           ///< the last node; -1: all
  std::optional<std::int64_t> rank;  ///< its values are reported, before and after each node
  bool pinned = false;               ///< decisions are compared with those of the capture
  /// Seed of inputs and random ops in place of the capture's: bits are not compared then.
  std::optional<std::uint64_t> seed = std::nullopt;
};

/// A replay that went through has no error. One whose program failed fails in the same way; one
/// with other final bits than the program fails with Assert.
struct ReplayRun {
  Run run;
  bool bits_compared = false;  ///< final values were compared, bit by bit, on every rank
  std::string of_values;       ///< of ReplayRunOptions::rank, a line for each value
  /// Pinned: the first node that today's rules decide differently, in both forms.
  std::optional<GraphDifference> otherwise;
};

/// `graphs`: of all classes of ranks of one program. `registry` outlives the result.
///   fails  ScenarioError, Value: a graph that cannot run
ReplayRun replay_on_ranks(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry,
                          const ScenarioOptions& options, const ReplayRunOptions& how = {});

/// Whether the error that a run has is the one that the graphs' program had.
bool fails_alike(const std::vector<ProgramGraph>& graphs, const Error& error);

}  // namespace shardlab
