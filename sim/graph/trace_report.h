// trace_report.h - the report of `shardlab trace` on a program: graph, guards, setup actions,
// breaks, and one line that sums up.
#pragma once

#include <cstdint>
#include <string>

#include "sim/graph/capture.h"
#include "trace/compare_graphs.h"
#include "trace/graph_text.h"
#include "trace/guards.h"
#include "trace/replay.h"

namespace shardlab {

// A graph in place of a program: on the same worlds, devices and backends.

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

/// The outcome of a graph that was run again right after its capture.
enum class ReplayOutcome : std::uint8_t {
  kBitwise,  ///< the same bits on every rank
  kShapes,   ///< the same types; nothing holds bits
  kFails,    ///< it fails as the program did
  kDiffers,  ///< its results differ from the program's
};

struct TraceReport {
  ReplayOutcome outcome = ReplayOutcome::kBitwise;
  std::string why;       ///< kDiffers: the first difference
  bool expected = true;  ///< false: the program failed, and its scenario does not expect that
  bool ok() const { return outcome != ReplayOutcome::kDiffers && expected; }
};

/// "replay bitwise"
std::string outcome_text(const TraceReport& report);
/// Compares a run with the replay of its graphs.
TraceReport compared(const Captured& captured, const ReplayRun& replayed);

/// For people; with the graphs of single ranks, if there are any, instead of those of all classes.
std::string trace_text(const Captured& captured, const TraceReport& report);
/// "ok  33 nodes, 3 collectives, 9 guards, 0 breaks, same on 8 ranks, replay bitwise"
std::string trace_summary(const Captured& captured, const TraceReport& report);
/// One JSON object: counts, guards, breaks, the node at which ranks differ; and, if `form` is not
/// empty, the graph in that form, under its name.
std::string trace_json(const Captured& captured, const TraceReport& report, std::string_view form,
                       const std::string& text);

/// The outcome of a graph that was run in place of its program.
std::string replay_json(const ProgramGraph& graph, std::string_view how);

/// The guards of a graph compared with a scenario: each with the value found, the first that does
/// not hold last.
std::string check_text(const std::vector<CheckedGuard>& answers);

}  // namespace shardlab
