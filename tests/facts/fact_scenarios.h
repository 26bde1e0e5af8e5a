// fact_scenarios.h - programs of recorded facts, read and run as a user's scenario is: its text,
// its names, its inputs, the interpreter on each rank.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sim/language/run/interpreter.h"
#include "sim/scenario/scenario.h"
#include "sim/world/world.h"

namespace shardlab {

/// Worlds of all sizes, with their caches. Used by one thread.
class FactScenarios {
 public:
  FactScenarios();
  ~FactScenarios();

  /// The scenario of a TOML text; `name` is used in place of its file.
  ///   fails  ScenarioError: not a scenario, names and ops that are not defined
  Scenario read(const std::string& name, const std::string& text) const;

  struct OnRank {
    /// Receives the values of the rank; outlives the run.
    std::function<ValueSink&(RankContext& rank)> sink;
    /// Runs the interpreter, which has the inputs, and reads its final values.
    std::function<void(RankContext& rank, Interpreter& interpreter)> run;
    /// Before the rank has anything; may be empty.
    std::function<void(RankContext& rank)> begins = {};
  };
  /// Runs on every rank of the scenario's mesh. `judge` then sees the result while the devices of
  /// all tensors still live.
  void run(const Scenario& scenario, const OnRank& on_rank,
           const std::function<void(const WorldResult& result)>& judge);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardlab
