// Texts and totals of candidates, as O-9, O-12 and O-17 have them.
#include "schema/op_strategy.h"

#include "schema/schema_queries.h"

namespace shardlab {
namespace {

std::string joined(const auto& elements, auto&& text_of) {
  std::string text;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (i > 0) text += ", ";
    text += text_of(elements[i]);
  }
  return text;
}

}  // namespace

double OpSpec::cost() const {
  double total = 0;
  for (const double cost : input_costs) total += cost;
  return total;
}

std::string OpSpec::text() const {
  const std::string out =
      outputs.size() == 1 ? compact_text(outputs[0]) : compact_text(OutputSpecs(outputs));
  return inputs.empty() ? out : compact_text(OutputSpecs(inputs)) + " -> " + out;
}

std::string OpStrategy::text() const {
  const MeshLayout* layout = nullptr;
  for (const OpSpec& candidate : candidates) {
    for (const DTensorSpec* spec : candidate.inputs) layout = spec->layout();
    for (const DTensorSpec* spec : candidate.outputs) {
      if (spec != nullptr) layout = spec->layout();
    }
  }
  std::string text = "[" + joined(candidates, [](const OpSpec& spec) { return spec.text(); }) + "]";
  if (layout == nullptr) return text;
  return text + " @ mesh: (" +
         joined(layout->shape(), [](std::int64_t size) { return std::to_string(size); }) + ")";
}

std::string TupleStrategy::text() const {
  return "TupleStrategy(" + joined(children, [](const OpStrategy& child) { return child.text(); }) +
         ")";
}

}  // namespace shardlab
