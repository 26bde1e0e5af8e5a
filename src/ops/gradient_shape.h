// gradient_shape.h - a gradient that comes in has the shape of what it is the gradient of.
#pragma once

#include <fmt/ranges.h>

#include <string_view>

#include "schema/op_row.h"

namespace shardlab {

/// `of` names what has `wanted` as its shape: "an output".
///   fails  Value: another shape
inline void check_gradient_shape(const MetaArgs& args, const Dims& gradient, const Dims& wanted,
                                 std::string_view of) {
  if (gradient == wanted) return;
  fail(ErrorKind::kValue, "{}: a gradient of shape [{}] for {} of shape [{}]", args.op().base,
       fmt::join(gradient, ", "), of, fmt::join(wanted, ", "));
}

}  // namespace shardlab
