// The older schema is converted and nothing more: a rule's first suggestion is put onto the call
// and asked again (S-22), and the result becomes a decision of today's driver (S-24).
#include "schema/older_schema.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "schema/op_row.h"

namespace shardlab::older {

namespace {

std::string joined(const auto& elements, auto&& text_of) {
  std::string text;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    text += (i > 0 ? ", " : "") + text_of(elements[i]);
  }
  return text;
}

std::string spec_text(const DTensorSpec* spec) {
  return spec == nullptr ? "None" : placements_text(spec->placements());
}

void collect(const Argument& value, std::vector<Meta>& metas) {
  if (value.is_spec()) {
    metas.push_back({value.spec()->meta(), false});
  } else if (value.is_list()) {
    for (const Argument& element : value.list()) collect(element, metas);
  }
}

/// Keyword items as a set: their sequence does not matter.
bool same_items(const auto& a, const auto& b) {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
}

std::vector<const DTensorSpec*> outputs_of(const OutputSpecType& spec) {
  if (const auto* one = std::get_if<const DTensorSpec*>(&spec)) return {*one};
  if (const auto* many = std::get_if<std::vector<const DTensorSpec*>>(&spec)) return *many;
  return {};
}

bool absent(const OutputSpecType& spec) { return std::holds_alternative<std::monostate>(spec); }

}  // namespace

std::string placements_text(const Placements& placements) {
  std::string text;
  for (const Placement& placement : placements) text += to_string(placement);
  return text;
}

std::string PlacementStrategy::text() const {
  const std::string inputs = input_specs ? joined(*input_specs, spec_text) : "";
  const Dims& mesh = output_spec->layout()->shape();
  return fmt::format("({}) -> ({}) @ mesh layout: ({})", inputs, spec_text(output_spec),
                     text_of_list(mesh, ", "));
}

std::string OpStrategy::text() const {
  return "OpStrategy[" +
         joined(strategies, [](const PlacementStrategy& strategy) { return strategy.text(); }) +
         "]";
}

std::int64_t OpStrategy::max_num_shards() const {
  check_invariant(!strategies.empty(), "a strategy has candidates");
  std::int64_t most = 0;
  for (const PlacementStrategy& strategy : strategies) {
    most = std::max(most, strategy.output_spec->num_shards());
  }
  return most;
}

std::string TupleStrategy::text() const {
  std::string text = "TupleStrategy:";
  for (std::size_t i = 0; i < childs.size(); ++i) {
    text += fmt::format("\n  {}: {}", i, childs[i].text());
  }
  return text;
}

OpSchema::OpSchema(const OpDescriptor& function, std::vector<Argument> positional,
                   std::vector<std::pair<std::string, Argument>> keywords)
    : func_schema(&function),
      args_schema(std::move(positional)),
      kwargs_schema(std::move(keywords)),
      is_inplace(function.base.ends_with('_')),
      is_out_variant(function.overload.find("out") != std::string::npos) {}

std::vector<const DTensorSpec*> OpSchema::args_spec() const {
  std::vector<const DTensorSpec*> specs;
  for (const Argument& value : args_schema) {
    if (value.is_spec()) specs.push_back(value.spec());
  }
  return specs;
}

std::string OpSchema::text() const {
  const auto value_text = [](const Argument& value) { return value.text(); };
  const auto item_text = [](const auto& item) { return item.first + ": " + item.second.text(); };
  return fmt::format("OpSchema(func_schema={}, args_schema=({}), kwargs_schema={{{}}})",
                     func_schema->name(), joined(args_schema, value_text),
                     joined(kwargs_schema, item_text));
}

std::uint64_t OpSchema::hash() const {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(func_schema);
  for (const DTensorSpec* spec : args_spec()) hash = hash_mix(hash, spec->hash());
  std::uint64_t items = 0;  // a sum: the same in any sequence
  for (const auto& [name, value] : kwargs_schema)
    items += hash_mix(hash_text(0, name), value.hash());
  return hash_mix(hash, items);
}

bool OpSchema::operator==(const OpSchema& other) const {
  return func_schema == other.func_schema && args_schema == other.args_schema &&
         kwargs_schema.size() == other.kwargs_schema.size() &&
         same_items(kwargs_schema, other.kwargs_schema);
}

std::vector<Meta> OpSchema::inference_metas() const {
  std::vector<Meta> metas;
  for (const Argument& value : args_schema) collect(value, metas);
  for (const auto& [name, value] : kwargs_schema) collect(value, metas);
  return metas;
}

void OpSchema::rewrap_onto(const OpSchema& original) {
  const std::vector<const DTensorSpec*> specs = args_spec();
  check_invariant(specs.size() == original.args_spec().size(),
                  "a suggestion has a spec for every tensor of the call");
  std::size_t next = 0;
  args_schema = original.args_schema;
  for (Argument& value : args_schema) {
    if (value.is_spec()) value = specs[next++];
  }
  kwargs_schema = original.kwargs_schema;
}

OpSpec converted(const PlacementStrategy& strategy) {
  return {
      {strategy.output_spec}, strategy.input_specs.value_or(std::vector<const DTensorSpec*>{}), {}};
}

shardlab::OpStrategy converted(const StrategyType& strategy) {
  shardlab::OpStrategy result;
  if (const auto* single = std::get_if<OpStrategy>(&strategy)) {
    for (const PlacementStrategy& candidate : single->strategies) {
      result.candidates.push_back(converted(candidate));
    }
    return result;
  }
  const std::vector<OpStrategy>& childs = std::get<TupleStrategy>(strategy).childs;
  for (const OpStrategy& child : childs) {
    if (child.strategies.size() != childs[0].strategies.size()) {
      fail(Fix{fmt::format("give every child {} strategies", childs[0].strategies.size())},
           "the children of a tuple strategy have {} and {} candidates; they must have as many",
           childs[0].strategies.size(), child.strategies.size());
    }
    for (std::size_t i = 0; i < child.strategies.size(); ++i) {
      if (&child == &childs[0]) {
        result.candidates.push_back(converted(child.strategies[i]));
      } else {
        result.candidates[i].outputs.push_back(child.strategies[i].output_spec);
      }
    }
  }
  return result;
}

Settled settle(Rule rule, const OpSchema& schema) {
  OutputSharding answer = rule(schema);
  if (!absent(answer.output_spec)) return {schema, std::move(answer)};
  if (answer.schema_suggestions.empty()) {
    fail(ErrorKind::kRuntime, Fix{"let the rule answer with an output spec, or with a suggestion"},
         "{}: {}", schema.func_schema->name(),
         answer.failed_reason.value_or("its rule gives neither an output nor a suggestion"));
  }
  OpSchema suggestion = answer.schema_suggestions[0];
  suggestion.rewrap_onto(schema);
  OutputSharding second = rule(suggestion);
  if (absent(second.output_spec)) {
    fail(ErrorKind::kRuntime, Fix{"suggest placements that the rule accepts"},
         "{}: its rule refuses its own suggestion: {}", schema.func_schema->name(),
         second.failed_reason.value_or("no reason"));
  }
  second.failed_reason = answer.failed_reason;
  return {std::move(suggestion), std::move(second)};
}

OpSchema schema_of(const shardlab::OpSchema& schema) {
  const OpDescriptor& op = schema.row->op;
  const std::size_t positional = op.positional_count();
  std::vector<std::pair<std::string, Argument>> keywords;
  for (std::size_t i = positional; i < schema.args.size(); ++i) {
    if (!schema.args[i].is_none()) keywords.emplace_back(op.arguments[i].name, schema.args[i]);
  }
  const auto first = schema.args.begin();
  return OpSchema(op, {first, first + static_cast<std::ptrdiff_t>(positional)},
                  std::move(keywords));
}

shardlab::OpStrategy candidates_for(const RuleContext& context, const StrategyType& strategy) {
  shardlab::OpStrategy result = converted(strategy);
  for (OpSpec& candidate : result.candidates) {
    if (!candidate.inputs.empty()) continue;
    const Placements& followed = candidate.outputs.at(0)->placements();
    for (const DTensorSpec* tensor : context.tensors) {
      candidate.inputs.push_back(tensor->with(followed));
    }
  }
  return result;
}

MeshRuleResult mesh_rule_result(const RuleContext& context, const Settled& settled) {
  MeshRuleResult result;
  for (const DTensorSpec* spec : outputs_of(settled.sharding.output_spec)) {
    result.outputs.push_back(spec == nullptr ? Placements(context.schema.layout->ndim())
                                             : spec->placements());
  }
  for (const DTensorSpec* spec : settled.schema.args_spec()) {
    result.inputs.push_back(spec->placements());
  }
  // Plain values that the rule replaced reach the local call (S-13).
  for (std::size_t i = 0; i < settled.schema.args_schema.size(); ++i) {
    const Argument& value = settled.schema.args_schema[i];
    if (value.is_spec() || value.is_list() || value == context.schema.args[i]) continue;
    result.adapted.push_back({.argument = i, .value = value});
  }
  return result;
}

}  // namespace shardlab::older
