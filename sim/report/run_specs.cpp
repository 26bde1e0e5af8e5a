// Meshes are found by the tensors on them: one that only makes others is not listed.
#include "sim/report/run_specs.h"

#include <algorithm>

#include "base/text_of_list.h"

namespace shardlab {

void visit_specs(const ScenarioResult& result,
                 const std::function<void(const DTensorSpec&)>& visit) {
  const auto all = [&](const auto& specs) {
    for (const DTensorSpec* spec : specs) {
      if (spec != nullptr) visit(*spec);
    }
  };
  for (const ValueReport& value : result.judgement.values) all(std::vector{value.spec});
  for (const TraceEvent& event : result.run.events) {
    if (event.kind == TraceEvent::Kind::kOp) {
      all(event.schema.tensor_specs());
      all(event.decision->inputs);
      all(event.decision->outputs);
    } else if (event.kind == TraceEvent::Kind::kRedistribution) {
      all(std::vector{event.redistribution.source, event.redistribution.target});
    }
  }
}

std::vector<const MeshLayout*> meshes_of(const ScenarioResult& result) {
  std::vector<const MeshLayout*> meshes{result.run.layout};
  visit_specs(result, [&](const DTensorSpec& spec) {
    if (std::ranges::find(meshes, spec.layout()) == meshes.end()) meshes.push_back(spec.layout());
  });
  return meshes;
}

std::string mesh_name(const Run& run, const MeshLayout& layout) {
  if (&layout == run.layout) return "mesh";
  const bool part = std::ranges::all_of(layout.names(), [&](const std::string& name) {
    return run.layout->find_dim(name).has_value();
  });
  if (!part || layout.root() != run.layout->root()) return layout.text();
  return fmt::format("mesh[\"{}\"]", text_of_list(layout.names(), "\", \""));
}

}  // namespace shardlab
