// recorded_types.h - claims and moves of spmd_types in a recording, against the values that the
// ranks have: replicas are equal, a move keeps the whole, the gradient tells R and I apart.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/replay/replay_report.h"
#include "sim/types/inferred_type.h"

namespace shardlab {

struct TypesJudgement {
  std::int64_t judged = 0;              ///< claims and moves
  std::vector<ReplayDifference> wrong;  ///< in the order of the file
};

/// Claims and moves that values contradict. With `one`, a recording of
/// the same script on one process, also terms and pieces that are not that value: the claim of the
/// same line that was met as often before. Plays the program once more, and `one`.
TypesJudgement judge_types(const RecordedProgram& program, const RecordedProgram* one = nullptr);

/// The types of what a program of several ranks says something of, and of results of its calls,
/// along the mesh dims that it names. Without `one` pieces, terms and V are not told apart.
///   fails  Value: nothing is said of types; there are no values
InferredTypes types_of_recording(const RecordedProgram& program, const RecordedProgram* one);

}  // namespace shardlab
