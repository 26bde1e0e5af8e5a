// operands.h - what an op is given, before anything looks at it.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// Holds arguments to the schema: it has a tensor where graphs, and C++, may give anything.
///   fails  Value
void check_tensors(const OpRow& row, const Arguments& args);

}  // namespace shardlab
