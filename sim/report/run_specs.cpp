// Meshes are found by the tensors on them: one that only makes others is not listed.
#include "sim/report/run_specs.h"

#include <algorithm>

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

}  // namespace shardlab
