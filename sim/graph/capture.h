// capture.h - the program of a scenario as graphs: captured while it runs, guarded by the facts it
// depends on, run again. Reports and commands use it.
#pragma once

#include <vector>

#include "sim/run/run.h"
#include "trace/graph.h"

namespace shardlab {

/// One run of a program, and its graphs: one for each class of ranks with the same calls, the first
/// rank's first.
struct Captured {
  Run run;  ///< error and verdict of a program that fails are in here
  std::vector<ProgramGraph> graphs;
  std::vector<ProgramGraph> of_ranks;  ///< of single ranks, where they were asked for, ascending
};

/// Ranks whose own graphs are wanted, in addition to those of classes.
struct RankChoice {
  bool all = false;
  std::vector<std::int64_t> ranks;

  bool any() const { return all || !ranks.empty(); }
};

/// Runs the scenario once on its ranks. On a shape-only mesh one rank of each class is captured,
/// and bits are not known. Those of `ranks` are kept by themselves, too.
///   fails  ScenarioError: a scenario that cannot run. Unsupported: a backend whose ranks are
///          processes: graphs are captured in one process, and run again on any.
Captured capture_scenario(const Scenario& scenario, const OpRegistry& registry,
                          const ScenarioOptions& options, const RankChoice& ranks = {});

/// Graphs are captured in one process, and run again on any backend.
///   fails  Unsupported: a backend whose ranks are processes
void refuse_processes(const ScenarioOptions& options);

class Recorders;
/// The graphs of a run that is over, with these recorders around its calls, one for each class of
/// ranks. Those of `ranks` by themselves are put into `of_ranks`, which may be null where there are
/// none.
///   fails  Value: a rank was not captured
std::vector<ProgramGraph> graphs_of(const Run& run, Recorders& recorders,
                                    const RankChoice& ranks = {},
                                    std::vector<ProgramGraph>* of_ranks = nullptr);

/// The facts that decisions of this scenario's program may depend on, in order, each with its
/// present value: mesh and world, policies, types of inputs, params that the program names.
std::vector<Guard> facts_of(const Scenario& scenario);

}  // namespace shardlab
