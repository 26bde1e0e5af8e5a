// op_functions.h - the functions of tensor_ops.h that a printed program may call in place of an op
// by its name.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace shardlab {

/// A function of tensor_ops.h that is one call of an op, with the op's arguments in their order.
struct OpFunction {
  std::string_view op;    ///< "aten::sum.dim_IntList"
  std::string_view name;  ///< "sum"
  std::size_t most;       ///< arguments that it takes; the op's others have their defaults then
};
/// All of them, an op once. Defined next to the functions.
std::span<const OpFunction> op_functions();

}  // namespace shardlab
