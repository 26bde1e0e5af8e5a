// sharding_rule.h - the forms in which a row says how its op may be sharded: functions and data. A
// rule is a pure function of a call with specs in place of tensors.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "schema/meta_args.h"
#include "schema/op_strategy.h"

namespace shardlab {

/// Input of a rule: the call with global specs and the output metas. Rules of a base row also serve
/// its in-place and out= variants: they see the call without the out= tensors.
struct RuleContext {
  const OpSchema& schema;
  const OutputMetas& outputs;
  std::vector<const DTensorSpec*> tensors;  ///< positional then keyword, lists flattened, no out=
};

/// One cell of a rule row. A shard written as any() means every kind of shard (plain, strided) that
/// occurs among the inputs; none() is an output without spec.
struct RulePlacement {
  Placement placement;
  bool any_shard = false;
  bool absent = false;
  static RulePlacement any(std::int64_t tensor_dim) {
    return {Placement::shard(tensor_dim), true, false};
  }
  static RulePlacement of(Placement p) { return {p, false, false}; }
  static RulePlacement none() { return {Placement::replicate(), false, true}; }
};

/// Most ops have few tensors, whose cells need no memory of their own.
using RuleCells = InlineVector<RulePlacement, 3>;
/// One acceptable sharding on ONE mesh dim: outputs <- inputs.
struct RuleRow {
  RuleCells outputs;
  RuleCells inputs;  ///< positional then keyword tensors, lists flattened
};
/// Rows in preference order; the all-replicated row may be left out. Throwing Error refuses the
/// call.
using DimRuleFn = std::vector<RuleRow> (*)(const RuleContext& context);
/// A check that a rule for one mesh dim cannot make: whether a whole-mesh combination is right.
/// Null, or the reason why the combination is dropped.
using MeshFilterFn = const char* (*)(const RuleContext& context,
                                     std::span<const Placements> inputs);

/// The one candidate of a whole-mesh rule (view family).
struct MeshRuleResult {
  std::vector<Placements> outputs;
  std::vector<Placements> inputs;
  std::vector<AdaptedArgument> adapted;
  const char* local_op = nullptr;  ///< name of the row that runs locally, or null
};
using MeshRuleFn = MeshRuleResult (*)(const RuleContext& context);
/// Acceptable shardings over the whole mesh, of which the cheapest is taken: input specs per
/// positional tensor, output specs per tensor result. Costs are ignored.
using StrategyFn = OpStrategy (*)(const RuleContext& context);
/// The same for each element of the call's lists, of which each takes its cheapest (O-15). For rows
/// flagged kIndependentLists; a tensor next to the lists follows the first element.
using TupleStrategyFn = TupleStrategy (*)(const RuleContext& context);

/// Einsum-like rule as data: "mk,kn->mn". Kept factors shard, contracted ones give P(sum), linear
/// operands pass partials. An operand marked "+" is added to the product, broadcast, and is laid
/// out like the result: "+mn,mk,kn->mn".
struct FactorRule {
  const char* text = nullptr;
  /// For an op that a user's program computes on pieces (OpColumns::on_pieces): the letters whose
  /// cuts that program makes up for, so that nothing is pending along them. Such an op is not taken
  /// to be linear: no partial passes. Null: the op's own kernel computes.
  const char* made_up = nullptr;
};
/// Pointwise rule as data: output dims follow the broadcast input dims, so it only lists the
/// pending reductions that pass. One word per row, one letter for the outputs and then one per
/// positional tensor: s P(sum), a P(avg), x P(max), n P(min), r R. "sss aar": sums pass when both
/// have them; an average passes next to a replica. Words of another number of tensors do not apply.
struct PointwiseRule {
  const char* passes = "";
};
/// Composites and handlers, and rows that are not decided at all (K-33).
struct NoRule {};
using ShardingRule = std::variant<NoRule, DimRuleFn, MeshRuleFn, StrategyFn, TupleStrategyFn,
                                  FactorRule, PointwiseRule>;

}  // namespace shardlab
