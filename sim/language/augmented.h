// augmented.h - x += y and the like on tensors: in place, as in PyTorch, so that views of x and
// other names of it show the new value.
#pragma once

#include "sim/language/ast.h"
#include "sim/language/value.h"

namespace shardlab {

class Interpreter;

/// What the target's name is bound to afterwards: the tensor itself, but for `@=`, which makes a
/// new one.
Value binary_in_place(Interpreter& in, ast::BinaryOp op, const Value& tensor, const Value& operand);

}  // namespace shardlab
