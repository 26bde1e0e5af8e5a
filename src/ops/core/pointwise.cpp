// Common parts of the rows of pointwise ops.
#include "ops/core/pointwise.h"

#include <cmath>

#include "kernels/kernel_id.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

/// Partials do not pass where the factor is infinite: it would make NaN of terms that are 0, as
/// those of empty pieces are.
const char* factor_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Argument& number = context.schema.args[1];
  if (!number.is_scalar()) return nullptr;
  const bool divides = context.schema.row->kernel() == KernelId::kDiv;
  const double factor = divides ? 1 / number.scalar().to_double() : number.scalar().to_double();
  if (!std::isinf(factor)) return nullptr;
  for (const Placement& placement : inputs[0]) {
    if (placement.is_partial()) return "the number makes NaN of a term that is 0";
  }
  return nullptr;
}

/// Words that pass terms on next to a number or a replica.
bool scales_terms(const PointwiseRule& rule) {
  const std::string_view passes = rule.passes;
  return passes == kLinear.passes || passes == kProduct.passes || passes == kQuotient.passes;
}

}  // namespace

void add_pointwise_rows(OpRegistry& registry, std::span<const Row> rows) {
  for (Row row : rows) {
    row.flags |= kAllowUneven | kExact;
    if (scales_terms(std::get<PointwiseRule>(row.rule))) row.filter = factor_filter;
    add_row(registry, row);
  }
}

}  // namespace shardlab
