// convolution.h - handlers of convolution and its gradient (D-61, K-40 to K-44 as X-38). A mesh dim
// that cuts a spatial dim stays: ranks fetch the columns that their windows reach into, from as
// many neighbours as hold them. Any stride, padding, dilation and width; a transposed convolution
// takes its spatial dims whole.
#pragma once

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
Results handle_convolution(Calls& calls, const OpRow& row, const Arguments& args);
/// convolution_backward(grad_output, input, weight, bias_sizes, ..., output_mask). Gradients of
/// weight and bias are pending sums over the mesh dims that cut the batch or a spatial dim.
Results handle_convolution_backward(Calls& calls, const OpRow& row, const Arguments& args);

}  // namespace shardlab
