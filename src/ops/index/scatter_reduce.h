// scatter_reduce.h - parts that scatter_reduce and index_reduce share with the ops over indices.
#pragma once

#include "ops/core/gradient_math.h"

namespace shardlab {

/// For each element of `like` the index along dim `dim`.
DTensor beside(Calls& calls, const DTensor& index, std::int64_t dim, const DTensor& like);

/// Gradients of scatter_reduce(self, dim, index, src, reduce, *, include_self), index_reduce(..,
/// source, ..): equal extrema share the gradient.
grad::Gradients grad_scatter_reduce(const GradContext& context);
grad::Gradients grad_index_reduce(const GradContext& context);

}  // namespace shardlab
