// step_moves.h - judges steps that are not ops: redistributions, placements and the program's
// collectives.
#pragma once

#include "sim/verify/step_judge.h"

namespace shardlab {

/// "redistribute", "distribute", "from_local", "to_local", "all_reduce", ...
std::string move_name(const StepPart& part);
/// A step that is not an op; called inside of a JudgeScope.
StepFinding judge_move(const Step& step);

}  // namespace shardlab
