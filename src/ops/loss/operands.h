// operands.h - conditions of losses of two tensors on their shapes.
#pragma once

#include <string_view>

#include "schema/calls.h"

namespace shardlab {

/// The losses are computed in memory of the size of `widest`, to which the other one stretches.
///   fails  Value: the other has a size, or a dim, that `widest` has not
void require_widest(std::string_view op, const DTensor& widest, const DTensor& other);

}  // namespace shardlab
