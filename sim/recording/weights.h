// weights.h - elements of recorded inputs that are in a checkpoint of any format and sharding.
#pragma once

#include "sim/recording/export_options.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

/// Gives inputs the elements of the tensors of their names in `options.weights`, rounded to the
/// recorded dtype, and other inputs those of the checkpoint that they refer to, which have to be
/// the recorded ones. Tensors that no input takes, and inputs without one, become notes.
///   fails  Value: a parameter without a tensor, or one of another shape or with other contents;
///          each is named. As Checkpoint::open
void take_weights(RecordedProgram& program, const ExportOptions& options);

}  // namespace shardlab
