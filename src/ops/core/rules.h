// rules.h - a row's rule for ONE mesh dim as a list of rows, whatever its form in the row, and
// common parts of rules of several families. Pure.
#pragma once

#include "schema/sharding_rule.h"

namespace shardlab {

/// Acceptable shardings on one mesh dim in preference order, for positional and keyword tensors
/// without out=. Not for whole-mesh rules.
std::vector<RuleRow> rule_rows(const ShardingRule& rule, const RuleContext& context);

/// The rows of an einsum-like rule: one per factor that may be sharded.
std::vector<RuleRow> factor_rows(const FactorRule& rule, const RuleContext& context);
/// Letters X and N are as x and n, in words that are listed and never taken.
std::vector<RuleRow> pointwise_rows(const PointwiseRule& rule, const RuleContext& context);

/// One row with `placement` for every output and input: ops that keep all dims where they are.
RuleRow uniform_row(RulePlacement placement, std::size_t outputs, std::size_t inputs);
/// Every dim of the first tensor but `skipped` (-1: none) may be sharded, then in all tensors.
std::vector<RuleRow> shard_all_dims_but(const RuleContext& context, std::int64_t skipped,
                                        std::size_t inputs);
/// For values that do not depend on the input's: all dims may be sharded, and a partial input gives
/// whole values.
std::vector<RuleRow> rule_like(const RuleContext& context);
/// Appends, per letter of `kinds` (s sum, a avg, x max, n min, r replicate), a row where that
/// partial passes from every input to every output; `others`: inputs behind them that are whole.
void append_passing(std::vector<RuleRow>& rows, const char* kinds, std::size_t outputs,
                    std::size_t inputs, std::size_t others = 0);
RulePlacement placement_of_letter(char letter);

// Words in which families write rows: any kind of shard of `dim`, a plain one, everything on every
// rank, a pending sum.
inline RulePlacement any(std::int64_t dim) { return RulePlacement::any(dim); }
inline RulePlacement plain_shard(std::int64_t dim) {
  return RulePlacement::of(Placement::shard(dim));
}
inline RulePlacement whole() { return RulePlacement::of(Placement::replicate()); }
inline RulePlacement sum() { return RulePlacement::of(Placement::partial(ReduceOp::kSum)); }
/// The number of dims of the first tensor.
inline std::int64_t ndim_of(const RuleContext& context) {
  return static_cast<std::int64_t>(context.tensors[0]->ndim());
}

/// Whether a pending reduction may follow a conversion: the converted terms reduce to the converted
/// value. Integers wrap, so that sums pass only to integers that are not wider; a maximum, whose
/// empty pieces hold the least number there is, passes where every number keeps its place. Sums of
/// floats pass to other floats up to rounding. Placements that are not pending pass, and so do
/// lookups under a mask.
bool passes_cast(const Placement& pending, DType from, DType to);
/// A row that the reference lists and takes, although its terms do not reduce to the result:
/// the reason why it stays in the list and is never taken, or null.
const char* withheld(const ShardingRule& rule, const RuleContext& context, const RuleRow& row);

}  // namespace shardlab
