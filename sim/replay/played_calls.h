// played_calls.h - the collectives and messages of each rank of a recording, as its replay on
// simulated ranks makes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/shared/fabric_log.h"
#include "comm/verdict.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

struct PlayedCalls {
  FabricLog log;                    ///< its positions point into the program
  std::vector<std::string> places;  ///< by call of `log`: "layers.0.wq  model.py:37"
  std::optional<Verdict> verdict;   ///< of ranks that cannot go on
};

/// The user's line, as file and line.
SourcePosition position_of(const RecordedProgram& program, const RecordedEvent& event);
/// Replays all ranks, one at a time.
PlayedCalls played_calls(const RecordedProgram& program);

}  // namespace shardlab
