// Ops that answer with a plain value. Their handlers combine the ranks' answers.
#include "ops/derive.h"
#include "ops/register.h"
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

struct QueryRow {
  const char* schema;
  ShardingRule rule;
  HandlerId handler;
  std::uint32_t flags;
  const char* why;
};

const QueryRow kRows[] = {  // sorted by name
    {"_local_scalar_dense(Tensor self) -> Scalar", MeshRuleFn{as_given_rule},
     HandlerId::kLocalScalar, kDataDependent, "the handler fetches the element (X-37)"},
    {"equal(Tensor self, Tensor other) -> bool", DimRuleFn{alike_rule}, HandlerId::kEqual,
     kAllowUneven | kCollective | kDataDependent, "every rank compares its piece (X-35)"},
    {"is_same_size(Tensor self, Tensor other) -> bool", DimRuleFn{alike_rule},
     HandlerId::kIsSameSize, kAllowUneven, "compares global shapes"},
};

}  // namespace

void register_query(OpRegistry& registry) {
  for (const QueryRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.rule = entry.rule;
    row.handler = entry.handler;
    row.flags = entry.flags | kNotDifferentiable;
    row.why = entry.why;
    add_with_variants(registry, std::move(row), kNoVariants);
  }
}

}  // namespace shardlab
