// choices.h - gradients of ops that choose between operands, element by element.
#pragma once

#include "ops/core/gradient_math.h"

namespace shardlab {

grad::Gradients grad_maximum(const GradContext& context);
grad::Gradients grad_minimum(const GradContext& context);
grad::Gradients grad_clamp(const GradContext& context);
grad::Gradients grad_clamp_tensors(const GradContext& context);
grad::Gradients grad_clamp_max(const GradContext& context);
grad::Gradients grad_clamp_min(const GradContext& context);
grad::Gradients grad_masked_fill(const GradContext& context);
grad::Gradients grad_masked_fill_tensor(const GradContext& context);
grad::Gradients grad_where(const GradContext& context);

}  // namespace shardlab
