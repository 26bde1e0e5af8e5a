// Candidates are taken from the rule as they are; only their costs are computed here, and the first
// of least cost is taken. A candidate that would move a tensor written in place is left out.
#include "propagate/whole_strategy.h"

#include <algorithm>

#include "schema/op_row.h"
#include "schema/schema_queries.h"

namespace shardlab {
namespace {

// The answer of a user's rule may be anything.
void check_fits(const Element& element, const OpSpec& given) {
  check_candidate(given);
  const OpSchema& schema = element.schema;
  const auto here = [&](const DTensorSpec* spec) { return spec->layout() == schema.layout; };
  bool fits = given.outputs.size() >= element.outputs.size();
  fits = fits && given.inputs.size() >= element.positional;
  for (std::size_t i = 0; fits && i < element.positional; ++i) {
    fits = input_of(given, i) != nullptr && here(given.inputs[i]);
  }
  fits = fits && std::ranges::all_of(given.outputs, [&](const DTensorSpec* spec) {
           return spec == nullptr || here(spec);
         });
  if (fits) return;
  throw Error(ErrorKind::kInternal, fmt::format("{}: its rule gives the candidate {}, which is not "
                                                "for this call (D-18)",
                                                schema.row->name(), given.text()))
      .with("op", schema.text())
      .with("fix", fmt::format("give a spec on the call's mesh for each of its {} tensors and {} "
                               "results",
                               element.positional, element.outputs.size()));
}

}  // namespace

PricedStrategy price_strategy(const OpStrategy& given_strategy, const Element& element,
                              const PlanOptions& options) {
  const OpSchema& schema = element.schema;
  const bool strided = std::ranges::any_of(element.tensors, &DTensorSpec::has_strided);
  const auto spec_of = [&](const DTensorSpec& candidate, const TensorMeta& meta) {
    const Placements& placements = candidate.placements();
    return schema.layout->arena().spec(schema.layout, placements, default_order(placements), meta,
                                       strided ? strided_of_results(element) : candidate.strided());
  };
  PricedStrategy result;
  for (const OpSpec& given : given_strategy.candidates) {
    check_fits(element, given);
    OpSpec spec;
    for (std::size_t i = 0; i < element.outputs.size(); ++i) {
      const bool present = element.outputs[i].present && given.outputs[i] != nullptr;
      spec.outputs.push_back(present ? spec_of(*given.outputs[i], element.outputs[i].meta)
                                     : nullptr);
    }
    for (std::size_t i = 0; i < element.positional; ++i) {
      const DTensorSpec* now = element.tensors[i];
      spec.inputs.push_back(given.inputs[i]->placements() == now->placements()
                                ? now
                                : spec_of(*given.inputs[i], now->meta()));
      spec.input_costs.push_back(redistribute_cost(*now, *spec.inputs[i], options));
    }
    if (schema.row->inplace() && spec.inputs[0] != element.tensors[0]) continue;
    const std::vector<OpSpec>& kept = result.strategy.candidates;
    const auto best = static_cast<std::size_t>(result.selected);
    if (kept.empty() || spec.cost() < kept[best].cost()) {
      result.selected = static_cast<int>(kept.size());
    }
    result.strategy.candidates.push_back(std::move(spec));
  }
  return result;
}

TupleStrategy child_strategies(const OpSchema& schema, const OutputMetas& outputs,
                               std::size_t elements) {
  const auto* rule = std::get_if<TupleStrategyFn>(&schema.row->rule);
  if (rule == nullptr) return {};
  TupleStrategy answer = (*rule)({schema, outputs, schema.tensor_specs()});
  if (answer.children.size() != elements) {
    throw Error(ErrorKind::kInternal,
                fmt::format("{}: its rule gives {} strategies for lists of {} elements",
                            schema.row->name(), answer.children.size(), elements))
        .with("op", schema.text())
        .with("fix", "give one strategy for each element of the lists");
  }
  return answer;
}

}  // namespace shardlab
