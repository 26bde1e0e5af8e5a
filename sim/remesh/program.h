// program.h - the calls of a recording, up to its last backward, and one step of its optimizer, as
// statements: the program of a re-mesh. Calls with unused results are left out.
#pragma once

#include "sim/remesh/call_program.h"

namespace shardlab {

/// `recording` outlives the program. An optimizer that cannot be included is left out, and a note
/// says why.
///   fails  Unsupported: a step that is no program of calls (an autograd.Function that writes to
///          its operand, a view that no call made), with its place. Value: no calls, no backward
CallProgram program_of(const RecordedProgram& recording);

}  // namespace shardlab
