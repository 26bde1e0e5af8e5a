// augmented.h - x += y and the like: tensors, lists, sets and dicts are written in place, so that
// views and other names of them show the new value, as in PyTorch and Python; all else makes a new
// value.
#pragma once

#include "sim/language/syntax/ast.h"
#include "sim/language/values/value.h"

namespace shardlab {

class Interpreter;

/// The new value of the target's name: a tensor or a container itself, except for `@=`, which makes
/// a new one.
Value augmented(Interpreter& in, ast::BinaryOp op, const Value& before, const Value& operand);

/// Appends the values of a for loop over `more` to the list, or adds them to the set.
///   fails  Value: `more` cannot be iterated over, or the list would hold itself
void extend(Interpreter& in, const Value& list, const Value& more);

}  // namespace shardlab
