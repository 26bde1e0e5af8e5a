// gradient_shape.h - an incoming gradient has the shape of its tensor.
#pragma once

#include <string_view>

#include "base/fix.h"
#include "base/text_of_list.h"
#include "schema/meta_args.h"

namespace shardlab {

/// `of` names the tensor with `wanted` as its shape: "the output".
///   fails  Value: another shape
inline void check_gradient_shape(const MetaArgs& args, const Dims& gradient, const Dims& wanted,
                                 std::string_view of) {
  if (gradient == wanted) return;
  fail(Fix{fmt::format("pass a gradient of shape [{}]", text_of_list(wanted, ", "))},
       "{}: the gradient has shape [{}]; it must have the shape of {}", args.op().base,
       text_of_list(gradient, ", "), of);
}

}  // namespace shardlab
