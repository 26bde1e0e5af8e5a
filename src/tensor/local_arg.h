// local_arg.h - the value of one op argument that a kernel receives: local tensors and plain
// values.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tensor/scalar.h"
#include "tensor/tensor.h"

namespace shardlab {

/// In schema order, defaults filled in. `None` is monostate; an absent optional tensor too. int[]
/// arguments are Dims; float[] and bool[] are vectors. Tensors share ownership with the caller's; a
/// kernel that writes uses Storage::writable().
using LocalArg = std::variant<std::monostate, Tensor, std::vector<Tensor>, Scalar, Dims,
                              std::vector<double>, DType, std::string>;

}  // namespace shardlab
