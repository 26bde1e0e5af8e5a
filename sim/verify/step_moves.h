// step_moves.h - judges what is no op: redistributions, placements and the program's collectives.
#pragma once

#include "sim/verify/step_judge.h"

namespace shardlab {

/// "redistribute", "distribute", "from_local", "to_local", "all_reduce", ...
std::string move_name(const StepPart& part);
/// A step that is no op; inside of a JudgeScope.
StepFinding judge_move(const Step& step);

}  // namespace shardlab
