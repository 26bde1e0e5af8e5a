// read_expression.h - reads an expression of an object, as graphs write it, for an emitter: into
// the same text, or into an equal object.
#pragma once

#include <string_view>

#include "trace/emitter.h"

namespace shardlab {

/// Calls an emitter for an expression that a TextEmitter wrote.
///   fails  Value: no such expression, naming the place
void read_expression(std::string_view text, Emitter& into);

}  // namespace shardlab
