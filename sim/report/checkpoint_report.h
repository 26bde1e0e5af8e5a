// checkpoint_report.h - the contents of a checkpoint, and the differences of two: for people and
// as JSON
// (sim/ids.md).
#pragma once

#include <string>

#include "sim/checkpoint/compare.h"
#include "sim/report/show.h"

namespace shardlab {

/// A line for tensors whose names differ in numbers alone, totals by type, objects, and what is
/// wrong. `full`: a line each.
std::string checkpoint_text(const Checkpoint& checkpoint, bool full);
std::string checkpoint_json(const Checkpoint& checkpoint);
/// The pieces of a tensor, drawn, with their files.
std::string stored_tensor_text(const Checkpoint& checkpoint, const StoredTensor& tensor,
                               const DrawOptions& options);

/// `command`: how the repair is asked for, up to its edits.
std::string comparison_text(const CheckpointComparison& comparison, const std::string& command);
std::string comparison_json(const CheckpointComparison& comparison);

}  // namespace shardlab
