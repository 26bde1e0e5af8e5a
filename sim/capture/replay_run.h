// replay_run.h - a graph in place of a program: on the same worlds, devices and backends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/run/run.h"
#include "trace/compare_graphs.h"
#include "trace/replay.h"

namespace shardlab {

/// How to run graphs, beside what a run is told.
struct ReplayRunOptions {
  std::int64_t until = -1;           ///< the last node; -1: all
  std::optional<std::int64_t> rank;  ///< whose values are told, before and after each node
  bool pinned = false;               ///< what is decided now is compared with what was decided then
  /// Of inputs and random ops in place of the capture's: bits are not compared then.
  std::optional<std::uint64_t> seed = std::nullopt;
};

/// A replay that went through has no error. One whose program failed fails in the same way; one
/// that leaves other bits behind than the program did fails with Assert.
struct ReplayRun {
  Run run;
  bool bits_compared = false;  ///< what is left was compared, bit by bit, on every rank
  std::string told;            ///< of ReplayRunOptions::rank, a line for each value
  /// Pinned: the first node that today's rules decide otherwise, as it was and as it is.
  std::optional<GraphDifference> otherwise;
};

/// `graphs`: of all classes of ranks of one program. `registry` outlives the result.
///   fails  ScenarioError, Value: what cannot run as it is written
ReplayRun replay_on_ranks(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry,
                          const ScenarioOptions& options, const ReplayRunOptions& how = {});

/// Whether the error that a run has is the one that the graphs' program had.
bool fails_alike(const std::vector<ProgramGraph>& graphs, const Error& error);

}  // namespace shardlab
