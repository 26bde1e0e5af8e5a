// rules.h - a row's rule for ONE mesh dim as a list of rows, whatever form the row states it in,
// and the pieces that rules of several families share. Pure.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// Acceptable shardings on one mesh dim in preference order, for positional and keyword tensors
/// without out=. Not for whole-mesh rules.
std::vector<RuleRow> rule_rows(const ShardingRule& rule, const RuleContext& context);

std::vector<RuleRow> factor_rows(const FactorRule& rule, const RuleContext& context);
std::vector<RuleRow> pointwise_rows(const PointwiseRule& rule, const RuleContext& context);

/// One row with `placement` for every output and input: ops that keep all dims where they are.
RuleRow uniform_row(RulePlacement placement, std::size_t outputs, std::size_t inputs);
/// Every dim of the first tensor but `skipped` (-1: none) may be sharded alike in all tensors.
std::vector<RuleRow> shard_all_dims_but(const RuleContext& context, std::int64_t skipped,
                                        std::size_t inputs);
/// Appends, per letter of `kinds` (s sum, a avg, x max, n min, r replicate), a row where that
/// partial passes from every input to every output.
void append_passing(std::vector<RuleRow>& rows, const char* kinds, std::size_t outputs,
                    std::size_t inputs);
RulePlacement placement_of_letter(char letter);

}  // namespace shardlab
