// Inputs are called arg0, arg1, ...; what is guarded of them is their types and meshes, and the
// policies of the rank.
#include "trace/capture.h"

#include "base/fix.h"
#include "base/policies.h"
#include "base/rank_context.h"
#include "mesh/spec.h"
#include "mesh/type_string.h"
#include "plan/plan.h"
#include "trace/guards.h"
#include "trace/recorder.h"
#include "trace/replay.h"

namespace shardlab {

namespace {

void add(std::vector<Guard>& facts, Guard::Kind kind, std::string source, std::string expected) {
  facts.push_back({.kind = kind, .source = std::move(source), .expected = std::move(expected)});
}

std::vector<Guard> facts_of_call(const std::vector<DTensor>& inputs) {
  std::vector<Guard> facts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DTensor& x = inputs[i];
    const std::string source = fmt::format("arg{}", i);
    add(facts, Guard::Kind::kType, source,
        type_string(x) + (x.requires_grad() ? " requires_grad" : ""));
    if (!x.distributed()) continue;
    add(facts, Guard::Kind::kIdentity, source + ".mesh", mesh_fact(*x.spec()->layout()));
  }
  const RankContext& rank = current_rank();
  add(facts, Guard::Kind::kEquality, "mixed", std::string(policy_name(rank.mixed)));
  add(facts, Guard::Kind::kEquality, "implicit", std::string(policy_name(rank.implicit)));
  const auto planner = rank.plans != nullptr ? rank.plans->options().planner : std::nullopt;
  add(facts, Guard::Kind::kEquality, "planner",
      planner ? std::string(to_string(*planner)) : "default");
  return facts;
}

const MeshLayout* mesh_of_inputs(const std::vector<DTensor>& inputs) {
  for (const DTensor& x : inputs) {
    if (x.distributed()) return x.spec()->layout();
  }
  fail(ErrorKind::kValue, Fix{"place one of them on a mesh: distribute_tensor(x, mesh, ...)"},
       "capture: none of the {} inputs is on a mesh", inputs.size());
}

}  // namespace

CapturedProgram capture(const TensorProgram& program, const std::vector<DTensor>& inputs) {
  CapturedProgram captured;
  std::vector<Guard> guards = facts_of_call(inputs);
  Recorder recorder(program_calls(), mesh_of_inputs(inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    recorder.input(fmt::format("arg{}", i), {}, inputs[i]);
  }
  {
    const ObserverScope observed(recorder.listen(observer_to_tell()));
    const ProgramScope scope(recorder);
    captured.results_ = program(inputs);
  }
  captured.graph_ = recorder.finish(captured.results_);
  captured.graph_.guards = std::move(guards);
  return captured;
}

std::vector<DTensor> CapturedProgram::replay(const std::vector<DTensor>& inputs) const {
  if (const auto broken = first_broken(graph_.guards, facts_of_call(inputs))) {
    throw refusal_of(*broken);
  }
  Arena& arena = mesh_of_inputs(inputs)->arena();
  return shardlab::replay(graph_, arena, inputs).outputs;
}

}  // namespace shardlab
