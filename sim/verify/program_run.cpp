#include "sim/verify/program_run.h"

#include "autograd/autograd.h"
#include "autograd/grad_node.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "mesh/type_string.h"
#include "sim/verify/inputs.h"
#include "sim/verify/step_run.h"

namespace shardlab {

namespace {

void keep_gradients(const ProgramRun& run, const Interpreter& interpreter, Recording& recording) {
  for (const ScenarioInput& input : run.scenario->inputs) {
    if (!input.requires_grad) continue;
    const Value* value = interpreter.find(input.name);
    if (value == nullptr || !value->is_tensor()) continue;
    const DTensor gradient = grad_of(value->as<DTensor>());
    if (gradient.defined()) {
      recording.keep({input.name + ".grad", 0, detached(gradient), input.where});
    }
  }
}

}  // namespace

void run_on_rank(ProgramRun& run, RankContext& rank, std::size_t index, RankQuestions* questions) {
  Recording& recording = run.recordings[index];
  rank.memory = &run.accounts[index];
  rank.meshes->construct(run.layout);
  Interpreter interpreter({.scenario = run.scenario,
                           .registry = run.registry,
                           .calls = &recording_calls(),
                           .layout = run.layout,
                           .reported = run.reported,
                           .rank = run.told_rank >= 0 ? run.told_rank : rank.rank,
                           .world_size = run.scenario->world,
                           .precision = run.precision,
                           .sink = &recording,
                           .questions = questions,
                           .step_limit = run.step_limit});
  if (rank.rank == run.reporting_rank) run.inputs.clear();
  for (const ScenarioInput& input : run.scenario->inputs) {
    const DTensor value = make_input(*run.scenario, input, run.layout, run.precision);
    if (input.requires_grad) require_grad(value);
    if (rank.rank == run.reporting_rank) {
      run.inputs.push_back({input.name, type_string(value), value.local().size_bytes()});
    }
    interpreter.define(input.name, Value(value));
  }
  rank.observer = &run.traces[index];
  if (run.steps != nullptr) rank.observer = &run.steps->listen(rank.rank, &run.traces[index]);
  rank.mode |= kModeObserve;
  interpreter.run();
  if (run.steps != nullptr) run.steps->finish(rank.rank);
  rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
  keep_gradients(run, interpreter, recording);
}

std::vector<const Trace*> traces_by_rank(const ProgramRun& run) {
  std::vector<const Trace*> traces;
  if (run.classes.empty()) {
    for (const Trace& trace : run.traces) traces.push_back(&trace);
  }
  for (const std::size_t index : run.class_of) traces.push_back(&run.traces[index]);
  return traces;
}

}  // namespace shardlab
