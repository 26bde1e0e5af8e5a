// capture.h - the program of a scenario as graphs: captured while it runs, guarded by what it rests
// on, run again. Reports and commands stand on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/run/run.h"
#include "trace/graph.h"

namespace shardlab {

/// One run of a program, and what it did as graphs: one for each class of ranks that did the same,
/// the first rank's first.
struct Captured {
  Run run;  ///< error and verdict of a program that fails are in here
  std::vector<ProgramGraph> graphs;
  std::vector<ProgramGraph> of_ranks;  ///< of single ranks, where they were asked for, ascending
};

/// Whose own graphs are wanted, beside those of classes.
struct RankChoice {
  bool all = false;
  std::vector<std::int64_t> ranks;

  bool any() const { return all || !ranks.empty(); }
};

/// Runs the scenario once on its ranks. On a shape-only mesh one rank of each class is captured,
/// and nothing is known of bits. Those of `ranks` are kept by themselves, too.
///   fails  ScenarioError: what cannot run as written. Unsupported: a backend whose ranks are
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

/// What decisions of this scenario's program may rest on, in order, each with what it is now: mesh
/// and world, policies, types of inputs, params that the program names.
std::vector<Guard> facts_of(const Scenario& scenario);

}  // namespace shardlab
