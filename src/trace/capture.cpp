// Inputs are called arg0, arg1, ...; what is guarded of them is their types and meshes, and the
// policies of the rank.
#include "trace/capture.h"

#include <fmt/ranges.h>

#include <algorithm>

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

bool is_dynamic(const NamedTensor& input, std::size_t dim) {
  return std::ranges::count(input.dynamic, static_cast<std::int64_t>(dim)) > 0;
}

// What stays of a type where sizes may differ: "f32[*, 6] S(0)R".
std::string open_type(const NamedTensor& input) {
  const DTensor& x = input.value;
  std::vector<std::string> sizes;
  for (std::size_t dim = 0; dim < x.ndim(); ++dim) {
    sizes.push_back(is_dynamic(input, dim) ? "*" : fmt::format("{}", x.shape()[dim]));
  }
  std::string text = fmt::format("{}[{}]", to_string(x.dtype()), fmt::join(sizes, ", "));
  if (!x.distributed()) return text;
  text += " " + to_string(x.spec()->placements());
  const ShardOrder& order = x.spec()->order();
  if (order != default_order(x.spec()->placements())) {
    text += fmt::format(" in the order {}", fmt::join(order, ", "));
  }
  return text;
}

// A dynamic dim as a fact for each thing that decisions ask of it: its size, whether it is divided
// evenly, whether every rank has a part.
void add_sizes(std::vector<Guard>& facts, const NamedTensor& input) {
  const DTensor& x = input.value;
  for (const std::int64_t dim : input.dynamic) {
    const std::int64_t size = x.shape()[static_cast<std::size_t>(dim)];
    const std::string source = fmt::format("{}.shape[{}]", input.source, dim);
    add(facts, Guard::Kind::kEquality, source, std::to_string(size));
    std::int64_t parts = 1;
    for (std::size_t m = 0; x.distributed() && m < x.spec()->placements().size(); ++m) {
      const Placement& placement = x.spec()->placements()[m];
      if (placement.is_shard(dim)) parts *= x.spec()->layout()->shape()[m];
    }
    if (parts == 1) continue;
    add(facts, Guard::Kind::kEquality, fmt::format("{} % {}", source, parts),
        size % parts == 0 ? "0" : "not 0");
    add(facts, Guard::Kind::kEquality, fmt::format("{} >= {}", source, parts),
        size >= parts ? "True" : "False");
  }
}

const MeshLayout* mesh_of_inputs(const std::vector<DTensor>& inputs) {
  for (const DTensor& x : inputs) {
    if (x.distributed()) return x.spec()->layout();
  }
  fail(ErrorKind::kValue, Fix{"place one of them on a mesh: distribute_tensor(x, mesh, ...)"},
       "capture: none of the {} inputs is on a mesh", inputs.size());
}

}  // namespace

std::vector<Guard> facts_of_call(const std::vector<NamedTensor>& inputs) {
  std::vector<Guard> facts;
  for (const NamedTensor& input : inputs) {
    const auto& [source, x, dynamic] = input;
    add(facts, Guard::Kind::kType, source,
        (dynamic.empty() ? type_string(x) : open_type(input)) +
            (x.requires_grad() ? " requires_grad" : ""));
    add_sizes(facts, input);
    // The graph knows them as one value.
    const auto first = std::ranges::find(inputs, x, &NamedTensor::value);
    if (first->source != source)
      add(facts, Guard::Kind::kIdentity, source, "the same as " + first->source);
    if (!x.distributed()) continue;
    add(facts, Guard::Kind::kIdentity, source + ".mesh", mesh_fact(*x.spec()->layout()));
  }
  const RankContext& rank = current_rank();
  add(facts, Guard::Kind::kEquality, "grad mode", (rank.mode & kModeAutograd) != 0 ? "on" : "off");
  add(facts, Guard::Kind::kEquality, "mixed", std::string(policy_name(rank.mixed)));
  add(facts, Guard::Kind::kEquality, "implicit", std::string(policy_name(rank.implicit)));
  const auto planner = rank.plans != nullptr ? rank.plans->options().planner : std::nullopt;
  add(facts, Guard::Kind::kEquality, "planner",
      planner ? std::string(to_string(*planner)) : "default");
  return facts;
}

std::vector<Guard> guards_of(std::vector<Guard> facts, const std::vector<NamedTensor>& inputs,
                             const std::optional<std::int32_t>& sized_at) {
  const auto says_size = [&](const Guard& fact) {
    return std::ranges::any_of(inputs, [&](const NamedTensor& input) {
      return !input.dynamic.empty() && fact.source.starts_with(input.source + ".shape[") &&
             fact.source.ends_with(']');
    });
  };
  if (!sized_at) {
    std::erase_if(facts, says_size);
    return facts;
  }
  for (Guard& fact : facts) {
    if (says_size(fact)) fact.line = *sized_at;
  }
  return facts;
}

std::vector<NamedTensor> CapturedProgram::named(const std::vector<DTensor>& inputs) const {
  std::vector<NamedTensor> names;
  for (const DTensor& x : inputs) names.push_back({fmt::format("arg{}", names.size()), x});
  for (const auto& [input, dim] : dynamic_) {
    const bool known = input < names.size() && dim >= 0 &&
                       static_cast<std::size_t>(dim) < names[input].value.ndim();
    if (known) names[input].dynamic.push_back(dim);
  }
  return names;
}

CapturedProgram capture(const TensorProgram& program, const std::vector<DTensor>& inputs,
                        const std::vector<DynamicDim>& dynamic) {
  CapturedProgram captured;
  captured.dynamic_ = dynamic;
  const std::vector<NamedTensor> names = captured.named(inputs);
  for (const auto& [input, dim] : dynamic) {
    if (input < names.size() && std::ranges::count(names[input].dynamic, dim) > 0) continue;
    fail(ErrorKind::kValue, Fix{"count inputs and dims from 0"},
         "capture: there is no dim {} of input {} that could be dynamic", dim, input);
  }
  std::vector<Guard> facts = facts_of_call(names);
  Recorder recorder(program_calls(), mesh_of_inputs(inputs));
  for (const NamedTensor& input : names) recorder.input(input.source, {}, input.value);
  if (!dynamic.empty()) recorder.allow_other_sizes();
  {
    const ObserverScope observed(recorder.listen(observer_to_tell()));
    const ProgramScope scope(recorder);
    captured.results_ = program(inputs);
  }
  captured.graph_ = recorder.function(captured.results_);
  captured.graph_.guards = guards_of(std::move(facts), names, recorder.sized_at());
  return captured;
}

std::vector<DTensor> CapturedProgram::replay(const std::vector<DTensor>& inputs) const {
  if (const auto broken = first_broken(graph_.guards, facts_of_call(named(inputs)))) {
    throw refusal_of(*broken);
  }
  Arena& arena = mesh_of_inputs(inputs)->arena();
  return shardlab::replay(graph_, arena, inputs).outputs;
}

}  // namespace shardlab
