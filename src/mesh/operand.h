// operand.h - the tensor that a program calls a function on, with the place of the call.
#pragma once

#include "base/source_line.h"
#include "mesh/dtensor.h"

namespace shardlab {

/// The first parameter of functions for programs, operators included, in place of `const DTensor&`:
/// it is made of the tensor, and records the line where that is written. Lives during the call.
struct Operand {
  const DTensor& tensor;
  SourceLine place;

  Operand(const DTensor& x, SourceLine where = {}) : tensor(x), place(where) {}
  operator const DTensor&() const { return tensor; }
};

}  // namespace shardlab
