// operands.h - the operands of an op, before anything reads them.
#pragma once

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// Checks arguments against the schema: it has a tensor where graphs, and C++, may give anything.
///   fails  Value
void check_tensors(const OpRow& row, const Arguments& args);

}  // namespace shardlab
