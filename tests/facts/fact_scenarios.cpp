// Equal kernels of the ranks run once, as they do for users, so that faults that appear only then
// are seen, too.
#include "tests/facts/fact_scenarios.h"

#include <map>

#include "autograd/autograd.h"
#include "comm/device_mesh.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "plan/plan.h"
#include "propagate/propagator.h"
#include "sim/run/inputs.h"
#include "sim/scenario/scenario_file.h"
#include "sim/world/sharing_device.h"

namespace shardlab {

struct FactScenarios::State {
  State() : device(make_cpu_device(cpu_kernel_table())) {}

  World& world(std::int64_t ranks) {
    std::unique_ptr<World>& world = worlds[ranks];
    if (world) return *world;
    WorldOptions options;
    options.ranks = ranks;
    options.device = [this](std::int64_t) -> Device& { return *sharing; };
    options.propagator = &propagator;
    options.plans = &propagator.plans();
    world = std::make_unique<World>(std::move(options));
    return *world;
  }

  Arena arena;
  std::unique_ptr<Device> device;
  Propagator propagator{all_ops(), PlanOptions{}};
  std::unique_ptr<SharingDevice> sharing;  // of the run in progress
  std::map<std::int64_t, std::unique_ptr<World>> worlds;
};

FactScenarios::FactScenarios() : state_(std::make_unique<State>()) {}
FactScenarios::~FactScenarios() = default;

Scenario FactScenarios::read(const std::string& name, const std::string& text) const {
  const ScenarioFile file = ScenarioFile::read(std::make_shared<const SourceText>(name, text), {});
  Scenario scenario = file.at(file.points().front());
  check_names(scenario, all_ops());
  return scenario;
}

void FactScenarios::run(const Scenario& scenario, const OnRank& on_rank,
                        const std::function<void(const WorldResult& result)>& judge) {
  const MeshLayout* layout = layout_of(scenario.mesh, state_->arena);
  state_->sharing = std::make_unique<SharingDevice>(*state_->device, scenario.world);
  judge(state_->world(scenario.world).run([&](RankContext& rank) {
    if (on_rank.begins) on_rank.begins(rank);
    rank.meshes->construct(layout);
    Interpreter interpreter({.program = scenario.program.get(),
                             .params = &scenario.params,
                             .registry = &all_ops(),
                             .layout = layout,
                             .reported = layout,
                             .rank = rank.rank,
                             .world_size = scenario.world,
                             .sink = &on_rank.sink(rank)});
    for (const ScenarioInput& input : scenario.inputs) {
      const MakingScope scope(HeldFor::kInput);
      const DTensor value = make_input(scenario, input, layout, Precision::kDeclared);
      if (input.requires_grad) require_grad(value);
      interpreter.define(input.name, Value(value));
    }
    on_rank.run(rank, interpreter);
  }));
}

}  // namespace shardlab
