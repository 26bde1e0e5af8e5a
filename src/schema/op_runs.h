// op_runs.h - whether an op can be computed, not only placed.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// Something computes the op: a kernel, a view of the input, other ops, or a handler. Rows where
/// nothing does have rules and metadata only; calling one is Unsupported.
bool runs(const OpRow& row);

}  // namespace shardlab
