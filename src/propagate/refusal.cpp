// None of this runs while calls succeed: reasons are found by walking the candidates again when a
// call was refused or on request.
#include "propagate/refusal.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/text_of_list.h"
#include "mesh/type_string.h"
#include "ops/core/meta.h"
#include "propagate/whole_strategy.h"
#include "schema/op_row.h"
#include "schema/schema_queries.h"

namespace shardlab {
namespace {

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

}  // namespace

void refuse_without_rule(const OpSchema& schema) {
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{}: no sharding rule for this op", schema.row->name()))
      .with("op", schema.text())
      .with("mesh", schema.layout->text())
      .with("fix",
            "gather the inputs and use plain tensors, or write the op as others that have one");
}

void refuse_inplace_move(const Element& element) { throw inplace_error(element); }

void refuse_without_candidates(const Element& element) {
  const std::string& name = element.schema.row->name();
  if (element.schema.row->inplace()) refuse_inplace_move(element);
  throw runtime_error(element, fmt::format("{}: its strategy has no candidate", name))
      .with("fix", "give at least the candidate in which everything is replicated");
}

void refuse_call(const Element& element, Expansion& expansion, const Choice& choice) {
  const std::string rejected = rejected_rows(element, expansion);
  if (choice.blocked_inplace) throw inplace_error(element).with("rejected", rejected);
  throw runtime_error(
      element, fmt::format("{}: no sharding fits these placements", element.schema.row->name()))
      .with("rejected", rejected)
      .with("fix", element.outs > 0 ? "redistribute the out= tensor, or leave it out"
                                    : "redistribute an input, for example to replicas");
}

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

}  // namespace shardlab
