// composites.h - ops that torch makes of others, for the operators and functions of programs.
#pragma once

#include "sim/language/interpreter.h"

namespace shardlab {

/// left @ right for any number of dims (numpy's rules): mm, bmm, and reshapes around them.
///   fails  Value: batch dims that do not broadcast, tensors without dims; and what mm refuses
DTensor matrix_product(Interpreter& interpreter, const DTensor& left, const DTensor& right);

}  // namespace shardlab
