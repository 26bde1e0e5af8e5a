// chain_run.h - runs a chain fact's scenario on simulated ranks and puts its values together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/verify/global_value.h"
#include "tests/facts/chain_draw.h"
#include "tests/facts/fact_scenarios.h"

namespace shardlab {

/// The values and errors of a run.
struct ChainRun {
  /// The keys are the names of ChainFact's values and gradients. An undefined gradient is absent.
  std::map<std::string, GlobalValue> values;
  std::string fault;  ///< ranks that hold different replicas, or pieces of the wrong shape
  std::optional<Error> error;
  std::int32_t error_line = 0;  ///< of the program, from 1; 0: the program could not start
  bool before_run = false;      ///< the error says that the program is not one of this language
};

ChainRun run_chain(FactScenarios& scenarios, const ChainFact& fact, const ChainScenario& scenario);

}  // namespace shardlab
