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
  std::optional<ProgramGraph> of_rank;  ///< of one rank alone, where it was asked for
};

/// Runs the scenario once on its ranks. On a shape-only mesh one rank of each class is captured,
/// and nothing is known of bits. The graph of `rank` is kept by itself, too.
///   fails  ScenarioError: what cannot run as written. Unsupported: a backend whose ranks are
///          processes: graphs are captured in one process, and run again on any.
Captured capture_scenario(const Scenario& scenario, const OpRegistry& registry,
                          const ScenarioOptions& options,
                          std::optional<std::int64_t> rank = std::nullopt);

/// What decisions of this scenario's program may rest on, in order, each with what it is now: mesh
/// and world, policies, types of inputs, params that the program names.
std::vector<Guard> facts_of(const Scenario& scenario);

}  // namespace shardlab
