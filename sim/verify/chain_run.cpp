// A chain runs as a user's scenario does: its text is read, its names are checked, its inputs are
// placed, and each rank interprets the program, over a device that runs equal kernels once. Only
// the names that are compared are kept, so that nothing but the program itself holds its values.
#include "sim/verify/chain_run.h"

#include <algorithm>
#include <cmath>

#include "autograd/autograd.h"
#include "comm/device_mesh.h"
#include "kernels/cpu_kernels.h"
#include "ops/register.h"
#include "propagate/propagator.h"
#include "sim/scenario/interpreter.h"
#include "sim/scenario/scenario_file.h"
#include "sim/verify/inputs.h"
#include "sim/world/sharing_device.h"
#include "sim/world/world.h"

namespace shardlab {

namespace {

// One rank's values by the names of the fact.
using Held = std::map<std::string, DTensor>;

class CheckSink : public ValueSink {
 public:
  explicit CheckSink(Held& held) : held_(held) {}
  void assigned(const std::string& name, std::int64_t, const Value& value, const Where&) override {
    if (name.starts_with("check_") && value.is_tensor()) held_[name] = value.as<DTensor>();
  }
  void printed(const std::string&) override {}

 private:
  Held& held_;
};

// A plain tensor that every rank holds.
void add_plain(const std::vector<Held>& held, const std::string& name, const std::string& label,
               ChainRun& run) {
  run.values[label] = whole_value(held.front().at(name).local());
  const GlobalValue& first = run.values[label];
  for (const Held& rank : held) {
    const GlobalValue other = whole_value(rank.at(name).local());
    const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    if (other.integers == first.integers &&
        std::ranges::equal(other.reals, first.reals, same)) {
      continue;
    }
    run.fault = label + ": ranks hold different plain tensors";
  }
}

void add_value(const std::vector<Held>& held, const std::string& name, const std::string& label,
               ChainRun& run) {
  std::vector<DTensor> pieces;
  for (const Held& rank : held) {
    const auto found = rank.find(name);
    if (found != rank.end()) pieces.push_back(found->second);
  }
  if (pieces.empty()) return;
  const DTensorSpec* spec = pieces.front().spec();
  const bool alike = std::ranges::all_of(pieces, [&](const DTensor& t) { return t.spec() == spec; });
  if (pieces.size() != held.size() || !alike) {
    run.fault = label + ": ranks hold values of different types";
    return;
  }
  if (spec == nullptr) return add_plain(held, name, label, run);
  std::vector<AssemblyFault> faults;
  run.values[label] = assemble(*spec, pieces, faults);
  if (!faults.empty()) run.fault = label + ": " + faults.front().what;
}

}  // namespace

struct ChainWorlds::State {
  State() : device(make_cpu_device(cpu_kernel_table())) { register_all_ops(registry); }

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

  void run_on_rank(const ChainFact& fact, const Scenario& scenario, RankContext& rank, Held& held,
                   std::int32_t& line);

  Arena arena;
  std::unique_ptr<Device> device;
  OpRegistry registry;
  Propagator propagator{registry, PlanOptions{}};
  const MeshLayout* layout = nullptr;      // of the run in progress
  std::unique_ptr<SharingDevice> sharing;  // likewise
  std::map<std::int64_t, std::unique_ptr<World>> worlds;
};

ChainWorlds::ChainWorlds() : state_(std::make_unique<State>()) {}
ChainWorlds::~ChainWorlds() = default;

void ChainWorlds::State::run_on_rank(const ChainFact& fact, const Scenario& scenario,
                                     RankContext& rank, Held& held,
                                     std::int32_t& line) {
  rank.meshes->construct(layout);
  CheckSink sink(held);
  Interpreter interpreter({.scenario = &scenario,
                           .registry = &registry,
                           .calls = &recording_calls(),
                           .layout = layout,
                           .reported = layout,
                           .rank = rank.rank,
                           .world_size = scenario.world,
                           .sink = &sink});
  for (const ScenarioInput& input : scenario.inputs) {
    const DTensor value = make_input(scenario, input, layout, Precision::kDeclared);
    if (input.requires_grad) require_grad(value);
    interpreter.define(input.name, Value(value));
  }
  try {
    interpreter.run();
  } catch (...) {
    line = rank.position.line;
    throw;
  }
  for (const ChainInput& input : fact.inputs) {
    if (!input.requires_grad) continue;
    const DTensor gradient = grad_of(interpreter.find(input.name)->as<DTensor>());
    if (gradient.defined()) held[input.name + ".grad"] = gradient;
  }
}

namespace {

const MeshLayout* layout_of(const Scenario& scenario, Arena& arena) {
  MeshLayout::Init init;
  for (const ScenarioMeshDim& dim : scenario.mesh.dims) {
    init.shape.push_back(dim.size);
    init.names.push_back(dim.name);
  }
  return arena.layout(std::move(init));
}

// The failure that explains the others.
std::size_t first_failure(const WorldResult& result) {
  for (std::size_t i = 0; i < result.failures.size(); ++i) {
    if (!result.failures[i].consequence) return i;
  }
  return 0;
}

}  // namespace

ChainRun ChainWorlds::run(const ChainFact& fact, const ChainScenario& text) {
  ChainRun run;
  Scenario scenario;
  try {
    const auto source = std::make_shared<const SourceText>(fact.id, text.text);
    const ScenarioFile file = ScenarioFile::read(source, {});
    scenario = file.at(file.points().front());
    check_names(scenario, state_->registry);
  } catch (const Error& error) {
    run.error = error;
    run.before_run = true;
    return run;
  }
  state_->layout = layout_of(scenario, state_->arena);
  const auto ranks = static_cast<std::size_t>(scenario.world);
  std::vector<Held> held(ranks);
  std::vector<std::int32_t> lines(ranks, text.first_line);
  state_->sharing = std::make_unique<SharingDevice>(*state_->device, scenario.world);
  const WorldResult result = state_->world(scenario.world).run([&](RankContext& rank) {
    const auto index = static_cast<std::size_t>(rank.rank);
    state_->run_on_rank(fact, scenario, rank, held[index], lines[index]);
  });
  if (!result.ok()) {
    const RankFailure& failure = result.failures[first_failure(result)];
    run.error = result.merged();
    run.error_line = lines[static_cast<std::size_t>(failure.rank)] - text.first_line + 1;
    return run;
  }
  for (std::size_t i = 0; i < fact.values.size(); ++i) {
    add_value(held, text.checks[i], fact.values[i].name, run);
  }
  for (const ChainExpected& gradient : fact.gradients) {
    add_value(held, gradient.name, gradient.name, run);
  }
  return run;
}

}  // namespace shardlab
