// Parameters start from the plan's cuts. A module's result starts from the cuts of the batch, since
// the plan leaves most results to propagation.
#include "sim/remesh/placings.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace shardlab {

namespace {

using Cuts = std::vector<std::vector<std::string>>;  // for each tensor dim, the first cut first

std::string text_of(const Cuts& cuts) {
  std::vector<std::string> dims;
  for (const auto& names : cuts) {
    dims.push_back(names.empty()       ? "_"
                   : names.size() == 1 ? "_@" + names.front()
                                       : "_@(" + text_of_list(names, ",") + ")");
  }
  return "[" + text_of_list(dims, ", ") + "]";
}

class Placings {
 public:
  Placings(const CallProgram& program, const PlanMesh& mesh, const MeshPlan& plan)
      : program_(program), mesh_(mesh), plan_(plan) {}

  std::vector<OtherPlacing> all() {
    for (const CallInput& input : program_.inputs) {
      if (input.parameter && input.recorded == input.tensor) add_parameter(input);
    }
    for (const RecordedEvent& event : program_.recording->events) {
      if (event.kind == RecordedKind::kModule) add_result(event);
    }
    return std::move(all_);
  }

 private:
  void add_parameter(const CallInput& input) {
    const auto taken = std::ranges::find_if(program_.statements, [&](const Statement& one) {
      return std::ranges::find(one.takes, input.value) != one.takes.end();
    });
    add(name_pattern(input.recorded), input.meta.shape, plan_.cuts.at(input.value), taken);
  }

  void add_result(const RecordedEvent& event) {
    const std::string& module = module_of(*program_.recording, event);
    if (module.empty() || event.gives.empty() || event.gives[0] < 0) return;
    const Dims shape = program_.shape_of(event.gives[0]);
    if (shape.empty()) return;
    Cuts cuts(shape.size());
    const auto batch = std::ranges::find(program_.inputs, true, &CallInput::batch);
    if (batch != program_.inputs.end()) cuts[0] = plan_.cuts.at(batch->value)[0];
    const auto made = std::ranges::find_if(program_.statements, [&](const Statement& one) {
      return !one.outs.empty() && one.outs[0] == event.gives[0];
    });
    add(name_pattern(module) + ":out", shape, cuts, made);
  }

  void add(const std::string& name, const Dims& shape, const Cuts& cuts,
           std::vector<Statement>::const_iterator call) {
    if (call == program_.statements.end()) return;
    if (!seen_.insert(name).second) return;  // a repeated layer
    const std::string where = place_of(*program_.recording, *call->event);
    const bool result = name.ends_with(":out");
    for (const PlanMeshDim& mesh_dim : mesh_) {
      if (mesh_dim.size < 2) continue;
      Cuts whole = cuts;
      for (auto& names : whole) std::erase(names, mesh_dim.name);
      if (result || whole != cuts) all_.push_back({name + "=" + text_of(whole), where});
      for (std::size_t dim = 0; dim < shape.size(); ++dim) {
        Cuts cut = whole;
        cut[dim].push_back(mesh_dim.name);
        const bool other = result || cut[dim] != cuts[dim];
        if (other && shape[dim] > 1) all_.push_back({name + "=" + text_of(cut), where});
      }
    }
  }

  const CallProgram& program_;
  const PlanMesh& mesh_;
  const MeshPlan& plan_;
  std::set<std::string> seen_;
  std::vector<OtherPlacing> all_;
};

}  // namespace

std::vector<OtherPlacing> other_placings(const CallProgram& program, const PlanMesh& mesh,
                                         const MeshPlan& plan) {
  return Placings(program, mesh, plan).all();
}

}  // namespace shardlab
