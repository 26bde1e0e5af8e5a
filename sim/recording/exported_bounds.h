// exported_bounds.h - the numbers that the integers of an exported program's inputs are below.
#pragma once

#include "sim/recording/recorded_program.h"

namespace shardlab {

/// Gives the formulas of integer inputs their bounds: the size of what they point into, found from
/// their use back to where they are given; 2 where nothing points.
void bound_indices(RecordedProgram& program);

}  // namespace shardlab
