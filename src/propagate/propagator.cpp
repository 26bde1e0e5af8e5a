// A decision is a pure function of the op, the specs and the static arguments. It is computed
// outside of the cache's lock: ranks that miss the same call at once compute the same decision
// twice, and one of the two is kept (K-25).
#include "propagate/propagator.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <span>

#include "base/text.h"
#include "plan/shared_cache.h"
#include "propagate/elements.h"
#include "propagate/nearest_placements.h"
#include "propagate/whole_strategy.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/schema_queries.h"

namespace shardlab {
namespace {

// None of this runs while calls succeed: reasons are found by walking the candidates again when a
// call was refused or on request.

std::string placements_text(const Element& element) {
  std::string text;
  for (const DTensorSpec* spec : element.tensors) {
    text += (text.empty() ? "" : ", ") + compact_text(spec);
  }
  return text;
}

const char* reason_of(Drop drop) {
  switch (drop) {
    case Drop::kMixedPartials:
      return "a tensor would hold different kinds of partial";
    case Drop::kInplace:
      return "the tensor that is written in place would move";
    case Drop::kOut:
      return "the out= tensor is laid out differently";
    case Drop::kKeyword:
      return "a tensor that is given by keyword would move";
    case Drop::kTooShort:
      return "a tensor dim is shorter than the number of its pieces";
    case Drop::kFilter:
      return "the op's own condition refuses it";
    case Drop::kKept:
      break;
  }
  return "";
}

/// "(S(0), R) -> S(0)" for the whole mesh.
std::string combination_text(const Expansion& expansion, const Element& element,
                             const Combination& rows) {
  std::string inputs;
  for (std::size_t i = 0; i < element.tensors.size(); ++i) {
    inputs += (i > 0 ? ", " : "") + to_string(expansion.input_placements(rows, i));
  }
  std::string outputs;
  for (std::size_t i = 0; i < expansion.output_count(); ++i) {
    outputs += i > 0 ? ", " : "";
    outputs += expansion.output_present(rows, i) ? to_string(expansion.output_placements(rows, i))
                                                 : "None";
  }
  if (expansion.output_count() != 1) outputs = "(" + outputs + ")";
  return "(" + inputs + ") -> " + outputs;
}

Error runtime_error(const Element& element, std::string summary) {
  return Error(ErrorKind::kRuntime, std::move(summary))
      .with("op", element.schema.text())
      .with("mesh", element.schema.layout->text())
      .with("placements", placements_text(element));
}

OpSpec spec_of(Expansion& expansion, const Element& element, const Combination& rows) {
  OpSpec spec;
  for (std::size_t i = 0; i < element.outputs.size(); ++i) {
    spec.outputs.push_back(expansion.output_spec(rows, i));
  }
  for (std::size_t i = 0; i < element.tensors.size(); ++i) {
    spec.inputs.push_back(expansion.input_spec(rows, i));
    spec.input_costs.push_back(expansion.input_cost(rows, i));
  }
  return spec;
}

void explain_element(const Element& element, Expansion::Selection selection,
                     const PlanOptions& options, DecisionRecord& record) {
  Expansion expansion(element, options);
  const Choice choice = expansion.choose(selection);
  OpStrategy strategy;
  expansion.for_each([&](const Combination& rows, Drop drop) {
    if (drop == Drop::kKept) {
      strategy.candidates.push_back(spec_of(expansion, element, rows));
      if (const char* reason = expansion.withheld(rows)) {
        record.rejected.push_back({combination_text(expansion, element, rows), reason});
      }
    } else {
      record.rejected.push_back({combination_text(expansion, element, rows), reason_of(drop)});
    }
  });
  record.strategies.push_back(std::move(strategy));
  record.selected.push_back(choice.index);
  record.choice = to_string(choice.rule);
}

void record_strategy(const OpStrategy& strategy, const Element& element, const PlanOptions& options,
                     DecisionRecord& record) {
  PricedStrategy priced = price_strategy(strategy, element, options);
  record.strategies.push_back(std::move(priced.strategy));
  record.selected.push_back(priced.selected);
  record.choice = to_string(ChoiceRule::kCheapest);
}

Error inplace_error(const Element& element) {
  return runtime_error(element,
                       fmt::format("{}: written in place, but the tensor would have to move",
                                   element.schema.row->name()))
      .with("fix", "use the op that returns a new tensor, or redistribute the tensor first");
}

// "different kinds of partial: (P(sum), P(max)) -> P(sum), and 3 more; ..."
std::string rejected_rows(const Element& element, Expansion& expansion) {
  constexpr std::size_t kShown = 3;
  std::map<std::string, std::vector<std::string>> rows_of;
  expansion.for_each([&](const Combination& rows, Drop drop) {
    const char* reason = drop == Drop::kKept ? expansion.withheld(rows) : reason_of(drop);
    if (reason != nullptr) rows_of[reason].push_back(combination_text(expansion, element, rows));
  });
  std::string text;
  for (const auto& [reason, rows] : rows_of) {
    const std::span shown(rows.begin(), std::min(rows.size(), kShown));
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", reason, text_of_list(shown, ", "));
    if (rows.size() > kShown) text += fmt::format(", and {} more", rows.size() - kShown);
  }
  return text;
}

// Unsupported: the op has no sharding rule (K-33).
void refuse_without_rule(const OpSchema& schema) {
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{}: no sharding rule for this op", schema.row->name()))
      .with("op", schema.text())
      .with("mesh", schema.layout->text())
      .with("fix",
            "gather the inputs and use plain tensors, or write the op as others that have one");
}

void refuse_inplace_move(const Element& element) { throw inplace_error(element); }

// The same for a rule that lists its candidates.
void refuse_without_candidates(const Element& element) {
  const std::string& name = element.schema.row->name();
  if (element.schema.row->inplace()) refuse_inplace_move(element);
  throw runtime_error(element, fmt::format("{}: its strategy has no candidate", name))
      .with("fix", "give at least the candidate in which everything is replicated");
}

// Runtime: no candidate is left, or an in-place op would have to move its target. Names op,
// mesh, placements, the reasons, and what to do.
void refuse_call(const Element& element, Expansion& expansion, const Choice& choice) {
  const std::string rejected = rejected_rows(element, expansion);
  if (choice.blocked_inplace) throw inplace_error(element).with("rejected", rejected);
  throw runtime_error(
      element, fmt::format("{}: no sharding fits these placements", element.schema.row->name()))
      .with("rejected", rejected)
      .with("fix", element.outs > 0 ? "redistribute the out= tensor, or leave it out"
                                    : "redistribute an input, for example to replicas");
}

// Fills strategies, selected, rejected and choice of a record whose sharding is known.
void explain_choice(const OpSchema& schema, const PlanOptions& options, DecisionRecord& record) {
  if (std::holds_alternative<MeshRuleFn>(schema.row->rule)) {
    OpSpec spec{record.sharding.outputs, record.sharding.inputs, {}};
    const std::vector<const DTensorSpec*> given = schema.tensor_specs();
    for (std::size_t i = 0; i < given.size(); ++i) {
      spec.input_costs.push_back(
          redistribute_cost(*given[i], record.sharding.inputs[i]->placements(), options));
    }
    record.strategies = {{{std::move(spec)}}};
    record.selected = {0};
    record.choice = to_string(ChoiceRule::kOnly);
    return;
  }
  const OutputMetas outputs = infer_outputs(schema);
  if (const auto* rule = std::get_if<StrategyFn>(&schema.row->rule)) {
    const Element element = make_element(schema, outputs);
    record_strategy((*rule)({schema, outputs, element.tensors}), element, options, record);
    return;
  }
  if (!independent_lists(schema)) {
    explain_element(make_element(schema, outputs), Expansion::Selection::kFull, options, record);
    return;
  }
  const std::vector<ElementOfList> elements = list_elements(schema, outputs);
  const TupleStrategy children = child_strategies(schema, outputs, elements.size());
  for (std::size_t k = 0; k < elements.size(); ++k) {
    const Element element = make_element(elements[k].schema, elements[k].outputs);
    if (!children.children.empty()) {
      record_strategy(children.children[k], element, options, record);
    } else {
      explain_element(element, Expansion::Selection::kCheapestOnly, options, record);
    }
  }
}

constexpr std::size_t kRefusals = 4096;  // kept at most

/// Shape and stride arguments are local ones when the output is sharded (K-30).
void adapt_shape_arguments(const OpSchema& schema, OutputSharding& sharding) {
  const OpRow& row = *schema.row;
  if (row.shape_argument < 0 || sharding.outputs.empty() || !sharding.outputs[0]->is_sharded()) {
    return;
  }
  using Token = AdaptedArgument::Token;
  sharding.adapted.push_back({.argument = static_cast<std::size_t>(row.shape_argument),
                              .token = Token::kLocalShapeOfOutput});
  if (row.stride_argument >= 0) {
    sharding.adapted.push_back({.argument = static_cast<std::size_t>(row.stride_argument),
                                .token = Token::kLocalStrideOfOutput});
  }
}

void add_outputs(const Element& element, const Expansion& expansion, const Choice& choice,
                 OutputSharding& sharding) {
  for (std::size_t i = 0; i < element.outputs.size(); ++i) {
    sharding.outputs.push_back(expansion.output_spec(choice.rows, i));
  }
}

Choice chosen(Expansion& expansion, const Element& element, Expansion::Selection selection) {
  Choice choice = expansion.choose(selection);
  if (choice.index < 0) refuse_call(element, expansion, choice);
  return choice;
}

OutputSharding decide_by_rows(const OpSchema& schema, const PlanOptions& options) {
  const Element element = make_element(schema, infer_outputs(schema));
  Expansion expansion(element, options);
  const Choice choice = chosen(expansion, element, Expansion::Selection::kFull);
  OutputSharding sharding;
  add_outputs(element, expansion, choice, sharding);
  for (std::size_t i = 0; i < element.positional; ++i) {
    const DTensorSpec* given = element.tensors[i];
    sharding.inputs.push_back(expansion.input_spec(choice.rows, i));
    sharding.needs_redistribute = sharding.needs_redistribute || sharding.inputs[i] != given;
  }
  sharding.costs = {choice.cost};
  sharding.candidate_counts = {choice.count};
  adapt_shape_arguments(schema, sharding);
  return sharding;
}

/// The specs that a call, or an element of its lists, takes.
struct Taken {
  std::vector<const DTensorSpec*> outputs, inputs;
  double cost = 0;
  int count = 0;
};

Taken cheapest_rows(const Element& element, const PlanOptions& options) {
  Expansion expansion(element, options);
  const Choice choice = chosen(expansion, element, Expansion::Selection::kCheapestOnly);
  Taken taken{{}, {}, choice.cost, choice.count};
  for (std::size_t i = 0; i < element.outputs.size(); ++i) {
    taken.outputs.push_back(expansion.output_spec(choice.rows, i));
  }
  for (std::size_t i = 0; i < element.positional; ++i) {
    taken.inputs.push_back(expansion.input_spec(choice.rows, i));
  }
  return taken;
}

Taken cheapest_of(const OpStrategy& strategy, const Element& element, const PlanOptions& options) {
  const PricedStrategy priced = price_strategy(strategy, element, options);
  if (priced.selected < 0) refuse_without_candidates(element);
  const std::vector<OpSpec>& candidates = priced.strategy.candidates;
  const OpSpec& taken = candidates[static_cast<std::size_t>(priced.selected)];
  return {taken.outputs, taken.inputs, taken.cost(), static_cast<int>(candidates.size())};
}

OutputSharding decide_per_element(const OpSchema& schema, const PlanOptions& options) {
  const OutputMetas outputs = infer_outputs(schema);
  OutputSharding sharding;
  sharding.inputs = schema.tensor_specs();
  const std::vector<const DTensorSpec*> given = sharding.inputs;
  std::vector<bool> decided(given.size(), false);
  const std::vector<ElementOfList> elements = list_elements(schema, outputs);
  const TupleStrategy children = child_strategies(schema, outputs, elements.size());
  for (std::size_t k = 0; k < elements.size(); ++k) {
    const Element element = make_element(elements[k].schema, elements[k].outputs);
    const Taken taken = children.children.empty()
                            ? cheapest_rows(element, options)
                            : cheapest_of(children.children[k], element, options);
    if (!outputs.empty()) {
      sharding.outputs.insert(sharding.outputs.end(), taken.outputs.begin(), taken.outputs.end());
    }
    for (std::size_t i = 0; i < element.positional; ++i) {
      const std::size_t position = elements[k].positions[i];
      if (decided[position]) continue;  // a tensor next to the lists follows the first element
      decided[position] = true;
      sharding.inputs[position] = taken.inputs[i];
    }
    sharding.costs.push_back(taken.cost);
    sharding.candidate_counts.push_back(taken.count);
  }
  sharding.needs_redistribute = !(sharding.inputs == given);
  return sharding;
}

OutputSharding decide_by_mesh_rule(const OpSchema& schema, MeshRuleFn rule,
                                   const OpRegistry& registry, const PlanOptions& options) {
  const Element element = make_element(schema, infer_outputs(schema));
  const MeshRuleResult result = rule({schema, element.outputs, element.tensors});
  check_invariant(
      result.outputs.size() >= element.outputs.size() && result.inputs.size() >= element.positional,
      "a rule gives placements for every output and input (D-18)");
  const StridedShards strided = strided_of_results(element);
  const auto spec_of = [&](const Placements& placements, const TensorMeta& meta) {
    const ShardOrder order = default_order(placements);
    return schema.layout->arena().spec(schema.layout, placements, order, meta, strided);
  };
  OutputSharding sharding;
  for (std::size_t i = 0; i < element.outputs.size(); ++i) {
    const OutputMeta& output = element.outputs[i];
    sharding.outputs.push_back(output.present ? spec_of(result.outputs[i], output.meta) : nullptr);
  }
  double cost = 0;
  for (std::size_t i = 0; i < element.positional; ++i) {
    const DTensorSpec* given = element.tensors[i];
    // Whole-mesh rules assume that mesh dims cut in ascending order, so other orders move.
    const DTensorSpec* wanted = spec_of(result.inputs[i], given->meta());
    sharding.inputs.push_back(wanted->same_pieces(*given) ? given : wanted);
    cost += given->has_default_order() ? redistribute_cost(*given, result.inputs[i], options)
                                       : redistribute_cost(*given, *sharding.inputs[i], options);
    sharding.needs_redistribute = sharding.needs_redistribute || sharding.inputs[i] != given;
  }
  if (schema.row->inplace() && sharding.needs_redistribute) refuse_inplace_move(element);
  sharding.adapted = result.adapted;
  if (result.local_op != nullptr) sharding.local_row = &registry.at(result.local_op);
  sharding.costs = {cost};
  sharding.candidate_counts = {1};
  return sharding;
}

OutputSharding decide_by_strategy(const OpSchema& schema, StrategyFn rule,
                                  const PlanOptions& options) {
  const Element element = make_element(schema, infer_outputs(schema));
  Taken taken = cheapest_of(rule({schema, element.outputs, element.tensors}), element, options);
  OutputSharding sharding;
  sharding.outputs = std::move(taken.outputs);
  sharding.inputs = std::move(taken.inputs);
  for (std::size_t i = 0; i < element.positional; ++i) {
    sharding.needs_redistribute |= sharding.inputs[i] != element.tensors[i];
  }
  sharding.costs = {taken.cost};
  sharding.candidate_counts = {taken.count};
  adapt_shape_arguments(schema, sharding);
  return sharding;
}

OutputSharding decide(const OpSchema& schema, const OpRegistry& registry,
                      const PlanOptions& options) {
  const ShardingRule& rule = schema.row->rule;
  if (std::holds_alternative<NoRule>(rule)) refuse_without_rule(schema);
  if (const auto* mesh_rule = std::get_if<MeshRuleFn>(&rule)) {
    return decide_by_mesh_rule(schema, *mesh_rule, registry, options);
  }
  if (const auto* strategy = std::get_if<StrategyFn>(&rule)) {
    return decide_by_strategy(schema, *strategy, options);
  }
  if (independent_lists(schema)) return decide_per_element(schema, options);
  return decide_by_rows(schema, options);
}

}  // namespace

struct Propagator::Impl {
  struct Decision {
    std::uint64_t hash = 0;
    OpSchema schema;
    OutputSharding sharding;
  };
  struct Refusal {
    std::uint64_t hash = 0;
    OpSchema schema;
    Error error;
  };
  /// Whether an entry of either kind is that of the call.
  static auto is_of(std::uint64_t hash, const OpSchema& schema) {
    return [hash, &schema](const auto& entry) {
      return entry.hash == hash && entry.schema.same_key(schema);
    };
  }
  explicit Impl(std::size_t capacity) : cache(capacity), refusals(kRefusals) {}
  SharedCache<Decision> cache;
  SharedCache<Refusal> refusals;  // every rank of a program is refused the same call
};

Propagator::Propagator(const OpRegistry& registry, PlanOptions options, std::size_t capacity)
    : registry_(&registry), plans_(std::move(options)), impl_(std::make_unique<Impl>(capacity)) {}

Propagator::~Propagator() = default;

InUse<OutputSharding> Propagator::propagate(const OpSchema& schema) {
  const std::uint64_t hash = schema.key_hash();
  const auto matches = Impl::is_of(hash, schema);
  if (InUse<Impl::Decision> known = impl_->cache.find(hash, matches)) {
    return std::move(known).part(&Impl::Decision::sharding);
  }
  if (const InUse<Impl::Refusal> known = impl_->refusals.find(hash, matches)) {
    throw Error(known->error);
  }
  // Outside of any lock: ranks that miss the same call decide it twice at worst, with the same
  // result.
  static std::atomic<std::uint64_t> numbers = 0;
  OutputSharding sharding = decided(schema);
  sharding.number = ++numbers;
  return impl_->cache.insert(hash, matches, {hash, schema, std::move(sharding)})
      .part(&Impl::Decision::sharding);
}

OutputSharding Propagator::decided(const OpSchema& schema) const {
  const auto decide_it = [&](const OpSchema& call) {
    return decide(call, *registry_, plans_.options());
  };
  try {
    return decide_it(schema);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    const std::uint64_t hash = schema.key_hash();
    const auto matches = Impl::is_of(hash, schema);
    if (const InUse<Impl::Refusal> known = impl_->refusals.find(hash, matches)) {
      throw Error(known->error);
    }
    if (advice_ && !std::holds_alternative<NoRule>(schema.row->rule)) {
      std::string nearest = nearest_placements(schema, plans_.options(), decide_it);
      if (!nearest.empty()) error.with("nearest", std::move(nearest));
    }
    impl_->refusals.insert(hash, matches, {hash, schema, error});
    throw;
  }
}

DecisionRecord Propagator::explain(const OpSchema& schema) const {
  DecisionRecord record;
  record.sharding = decided(schema);
  explain_choice(schema, plans_.options(), record);
  return record;
}

CacheStats Propagator::stats() const { return impl_->cache.stats(); }

void Propagator::clear() {
  impl_->cache.clear();
  impl_->refusals.clear();
  plans_.clear();
}

}  // namespace shardlab
