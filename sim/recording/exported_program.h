// exported_program.h - a program of torch.export.save (.pt2) as a recorded program: its nodes are
// calls, the tensors of its archive are inputs.
#pragma once

#include "sim/recording/export_options.h"
#include "sim/recording/exported_archive.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

/// The program at the sizes that are asked for. Inputs have the elements of a formula: indices
/// below the size of what they point into.
///   fails  Value: damaged; a size out of its range; no such output. Unsupported: another schema,
///          op, kind of argument or of input, with its node and place
RecordedProgram exported_program(ExportedFiles files, const ExportOptions& options);

}  // namespace shardlab
