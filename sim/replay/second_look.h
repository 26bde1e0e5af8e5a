// second_look.h - results of a replay that differ, once more: by the op on operands that are
// changed by their rounding, and by the op on whole operands in f64.
#pragma once

#include <vector>

#include "sim/replay/recorded_world.h"
#include "sim/replay/replay_judge.h"

namespace shardlab {

/// Plays the program again, and counts each suspect as a difference, as rounding, or as a mistake
/// of PyTorch.
void look_again(const RecordedProgram& program, const PlayedGraph& graph, RecordedWorld& world,
                const std::vector<Suspect>& suspects, ReplayReport& report);

}  // namespace shardlab
