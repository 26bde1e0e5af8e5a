// reduction.h - common parts of reductions, those of spreads (spread.cpp) among them: shapes, rows,
// and how a gradient reaches the elements that were reduced.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/gradient_math.h"
#include "ops/core/meta.h"
#include "ops/core/rules.h"

namespace shardlab {

/// The meaning of an explicit empty list of dims.
enum class NoDims : std::uint8_t { kAll, kNone };

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
