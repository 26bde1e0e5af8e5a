// operands.h - what an op is given, before anything looks at it.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// What the schema says is a tensor is one: graphs, and undefined tensors of C++, give anything.
///   fails  Value
void check_tensors(const OpRow& row, const Arguments& args);

}  // namespace shardlab
