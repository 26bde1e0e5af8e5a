// writes.h - writes in place of a recorded program that may as well make new values.
#pragma once

#include "sim/remesh/call_program.h"

namespace shardlab {

/// On a mesh, a tensor that is written in place keeps its placements, and a call that would have to
/// move it fails. A write to a result whose memory nothing else takes later gets `renewed`, the op
/// that returns a new tensor: values and gradients are the same. Inputs are still written. A view
/// of memory that nothing writes becomes a reshape.
void renew_written(CallProgram& program);

}  // namespace shardlab
