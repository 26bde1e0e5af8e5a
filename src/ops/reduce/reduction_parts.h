// reduction_parts.h - common parts of reductions, those of spreads (spread.cpp) among them: shapes,
// rows, and how a gradient reaches the elements that were reduced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/gradient_math.h"
#include "ops/core/meta.h"
#include "ops/core/rules.h"

namespace shardlab {

/// The meaning of an explicit empty list of dims.
enum class NoDims : std::uint8_t { kAll, kNone };

/// The dims that an argument of `op` names on a tensor of `ndim` dims.
Dims dims_of(const OpDescriptor& op, const Argument& dims, std::size_t ndim, NoDims no_dims);
/// The dims that the arguments of a reduction name.
struct Reduced {
  Dims dims;
  bool keep_dims = false;
  bool contains(std::int64_t dim) const {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  }
  /// The dim of the result for dim `dim` of the input, which is not reduced.
  std::int64_t output_dim(std::int64_t dim) const {
    if (keep_dims) return dim;
    return dim - std::count_if(dims.begin(), dims.end(), [&](std::int64_t d) { return d < dim; });
  }
};

Reduced reduced_of(const RuleContext& context, NoDims no_dims = NoDims::kAll);

/// The meta of the result of an op with arguments "dim" and "keepdim" (either may lack) on its
/// first tensor.
TensorMeta reduced_meta(const MetaArgs& args, DType dtype, NoDims no_dims = NoDims::kAll);

/// Rows that cut dims which stay; with `partial`, also rows that cut dims which are reduced.
std::vector<RuleRow> reduction_rows(const RuleContext& context, std::optional<Placement> partial,
                                    NoDims no_dims = NoDims::kAll);
/// Results of pieces do not combine to the whole.
template <NoDims kNoDims>
std::vector<RuleRow> kept_dims_rule(const RuleContext& context) {
  return reduction_rows(context, std::nullopt, kNoDims);
}

namespace grad {

/// Reduced dims of a dim-list argument, ascending; none or an empty list means all. A tensor
/// without dims has none.
Dims reduced_dims(const Argument& dims, std::size_t ndim);
/// A reduced value in the shape of its input: dims put back unless they were `kept`.
DTensor unreduce(Calls& calls, DTensor value, const Dims& dims, bool kept);
/// The gradient of a sum over `dims`.
DTensor sum_gradient(const GradContext& context, const Dims& dims, bool kept);
/// A gradient of a sum, as that of a mean over `dims`.
DTensor mean_gradient(const GradContext& context, const DTensor& whole, const Dims& dims);

}  // namespace grad

}  // namespace shardlab
