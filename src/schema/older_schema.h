// older_schema.h - the first generation of the operator schema (S-1 to S-24), so that rules written
// for it run under the driver of today: types, texts and equality as they were, and the conversion.
// All of it is in this file and its .cpp; no other code uses it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schema/sharding_rule.h"

namespace shardlab::older {

/// S-2: as TensorMeta, with the flag that today's leaves out.
struct Meta {
  // Describes the whole tensor; independent of placements.
  TensorMeta meta;
  bool requires_grad = false;
};

/// S-3: one output, no prices.
struct PlacementStrategy {
  const DTensorSpec* output_spec = nullptr;
  std::optional<std::vector<const DTensorSpec*>> input_specs;
  std::string text() const;  ///< S-5: "(S(0), R) -> (S(0)) @ mesh layout: (2, 2)"
};
std::string placements_text(const Placements& placements);  ///< S-4

/// S-7
struct OpStrategy {
  /// In the order of the rule. Today's driver prices them and takes the cheapest.
  std::vector<PlacementStrategy> strategies;
  std::string text() const;
  std::int64_t max_num_shards() const;  ///< S-8; Internal when empty
};
/// S-9: one child per element of an output tuple.
struct TupleStrategy {
  std::vector<OpStrategy> childs;
  std::string text() const;  ///< S-10
};
using StrategyType = std::variant<OpStrategy, TupleStrategy>;  ///< S-6

/// S-23: none, one spec, or one per output.
using OutputSpecType =
    std::variant<std::monostate, const DTensorSpec*, std::vector<const DTensorSpec*>>;

/// S-11. The flags are those of the descriptor's name, whatever the caller gives (S-12).
struct OpSchema {
  OpSchema(const OpDescriptor& function, std::vector<Argument> positional,
           std::vector<std::pair<std::string, Argument>> keywords = {});

  const OpDescriptor* func_schema;
  std::vector<Argument> args_schema;  ///< rules may replace plain values in it (S-13)
  std::vector<std::pair<std::string, Argument>> kwargs_schema;
  bool is_inplace;
  bool is_out_variant;

  std::vector<const DTensorSpec*> args_spec() const;  ///< S-14: top level only
  std::string text() const;                           ///< S-15
  std::uint64_t hash() const;                         ///< S-16: coarser than equality
  bool operator==(const OpSchema& other) const;       ///< S-17
  /// S-19: metadata of every spec, nested ones too; no data.
  std::vector<Meta> inference_metas() const;
  /// S-20: this suggestion's specs on top of `original`'s values, top level.
  void rewrap_onto(const OpSchema& original);
};

/// S-21
struct OutputSharding {
  // The answer of a rule: an output, or other inputs to be asked about, or a reason.
  OutputSpecType output_spec;
  std::vector<OpSchema> schema_suggestions;
  std::optional<std::string> failed_reason;
};
/// A user's rule: a pure function of the call, which may run on any rank.
using Rule = OutputSharding (*)(const OpSchema& schema);

/// S-24. A tuple strategy becomes one strategy with tuples of outputs, children paired by index;
/// children of different lengths are Value.
OpSpec converted(const PlacementStrategy& strategy);
shardlab::OpStrategy converted(const StrategyType& strategy);

/// The consumer's protocol (S-22): a rule without output is asked again about its first suggestion;
/// without suggestions it fails with Runtime and the rule's reason.
struct Settled {
  OpSchema schema;  ///< the call whose inputs the output belongs to
  OutputSharding sharding;
};
Settled settle(Rule rule, const OpSchema& schema);
/// The call as the older generation sees it.
OpSchema schema_of(const shardlab::OpSchema& schema);
/// A strategy's candidates for a call; those without input specs want every input laid out like the
/// first output (S-3).
shardlab::OpStrategy candidates_for(const RuleContext& context, const StrategyType& strategy);
MeshRuleResult mesh_rule_result(const RuleContext& context, const Settled& settled);

/// A rule of the older style as the rule column of a row: `row.rule = older::run<my_rule>;`.
template <Rule rule>
MeshRuleResult run(const RuleContext& context) {
  return mesh_rule_result(context, settle(rule, schema_of(context.schema)));
}

/// A strategy of the older style likewise: `row.rule = older::run_strategy<my_strategy>;`.
using Strategy = StrategyType (*)(const OpSchema& schema);
template <Strategy strategy>
shardlab::OpStrategy run_strategy(const RuleContext& context) {
  return candidates_for(context, strategy(schema_of(context.schema)));
}

}  // namespace shardlab::older
