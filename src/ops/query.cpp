// Ops that answer with a plain value. Their handlers combine the ranks' answers.
#include "ops/register.h"
#include "ops/rows.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

/// Both operands are cut in the same way, so that ranks compare the same elements.
std::vector<RuleRow> alike_rule(const RuleContext& context) {
  std::vector<RuleRow> rows;
  const std::size_t ndim = std::min(context.tensors[0]->ndim(), context.tensors[1]->ndim());
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    rows.push_back(uniform_row(RulePlacement::any(static_cast<std::int64_t>(dim)), 0, 2));
  }
  return rows;
}

MeshRuleResult as_given_rule(const RuleContext& context) {
  return {.outputs = {}, .inputs = {context.tensors[0]->placements()}};
}

// Sorted by name.
// clang-format off
constexpr Row kQueryRows[] = {
    {"_local_scalar_dense", nullptr, MeshRuleFn{as_given_rule}, {}, {}, {},
     "the handler fetches the element (X-37)", kDataDependent},
    {"equal", nullptr, DimRuleFn{alike_rule}, {}, {}, {}, "every rank compares its piece (X-35)",
     kAllowUneven | kCollective | kDataDependent},
    {"is_same_size", nullptr, DimRuleFn{alike_rule}, {}, {}, {}, "compares global shapes",
     kAllowUneven},
};
// clang-format on

}  // namespace

// dispatch/all_ops.cpp gives them their handlers.
void register_query(OpRegistry& registry) { add_rows(registry, kQueryRows, kNotDifferentiable); }

}  // namespace shardlab
