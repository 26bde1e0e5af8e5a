// Inputs are called arg0, arg1, ...; their types and meshes are guarded, and the policies of the
// rank.
#include "trace/capture.h"

#include <algorithm>

#include "base/error.h"
#include "base/policies.h"
#include "base/rank_context.h"
#include "base/text.h"
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

// The part of a type that is fixed where sizes may differ: "f32[*, 6] S(0)R".
std::string open_type(const InputType& type, const std::vector<std::int64_t>& dynamic) {
  std::vector<std::string> sizes;
  for (std::size_t dim = 0; dim < type.meta.shape.size(); ++dim) {
    const bool open = std::ranges::count(dynamic, static_cast<std::int64_t>(dim)) > 0;
    sizes.push_back(open ? "*" : fmt::format("{}", type.meta.shape[dim]));
  }
  std::string text = fmt::format("{}[{}]", to_string(type.meta.dtype), text_of_list(sizes, ", "));
  if (type.spec == nullptr) return text;
  text += " " + to_string(type.spec->placements());
  const ShardOrder& order = type.spec->order();
  if (order != default_order(type.spec->placements())) {
    text += fmt::format(" in the order {}", text_of_list(order, ", "));
  }
  return text;
}

// A dynamic dim as a fact for each property that decisions use: its size, whether it is divided
// evenly, whether every rank has a part.
void add_size(std::vector<Guard>& facts, const std::string& source, std::int64_t size,
              std::int64_t parts) {
  add(facts, Guard::Kind::kEquality, source, std::to_string(size));
  if (parts == 1) return;
  add(facts, Guard::Kind::kEquality, fmt::format("{} % {}", source, parts),
      size % parts == 0 ? "0" : "not 0");
  add(facts, Guard::Kind::kEquality, fmt::format("{} >= {}", source, parts),
      size >= parts ? "True" : "False");
}

const MeshLayout* mesh_of_inputs(const std::vector<DTensor>& inputs) {
  for (const DTensor& x : inputs) {
    if (x.distributed()) return x.spec()->layout();
  }
  fail(Fix{"place one of them on a mesh: distribute_tensor(x, mesh, ...)"},
       "capture: none of the {} inputs is on a mesh", inputs.size());
}

}  // namespace

void add_input_facts(std::vector<Guard>& facts, const std::string& source, const InputType& type,
                     const std::vector<std::int64_t>& dynamic) {
  const bool open = !dynamic.empty();
  const std::string closed =
      type.spec != nullptr ? type_string(*type.spec) : type_string(type.meta);
  add(facts, Guard::Kind::kType, source,
      (open ? open_type(type, dynamic) : closed) + (type.requires_grad ? " requires_grad" : ""));
  for (const std::int64_t dim : dynamic) {
    std::int64_t parts = 1;
    for (std::size_t m = 0; type.spec != nullptr && m < type.spec->placements().size(); ++m) {
      if (type.spec->placement(m).is_shard(dim)) parts *= type.spec->layout()->size(m);
    }
    add_size(facts, fmt::format("{}.shape[{}]", source, dim),
             type.meta.shape[static_cast<std::size_t>(dim)], parts);
  }
}

std::vector<Guard> facts_of_call(const std::vector<NamedTensor>& inputs) {
  std::vector<Guard> facts;
  for (const NamedTensor& input : inputs) {
    const auto& [source, x, dynamic] = input;
    const TensorMeta& meta = x.distributed() ? x.spec()->meta() : x.local().meta();
    add_input_facts(facts, source, {meta, x.distributed() ? x.spec() : nullptr, x.requires_grad()},
                    dynamic);
    // In the graph they are one value.
    const auto first = std::ranges::find_if(inputs, same_as(x), &NamedTensor::value);
    if (first->source != source)
      add(facts, Guard::Kind::kIdentity, source, "the same as " + first->source);
    if (!x.distributed()) continue;
    add(facts, Guard::Kind::kIdentity, source + ".mesh", mesh_fact(*x.spec()->layout()));
  }
  const RankContext& rank = current_rank();
  add(facts, Guard::Kind::kEquality, "grad mode", (rank.mode & kModeAutograd) != 0 ? "on" : "off");
  add(facts, Guard::Kind::kEquality, "mixed", std::string(policy_name(rank.mixed)));
  add(facts, Guard::Kind::kEquality, "implicit", std::string(policy_name(rank.implicit)));
  const bool chosen = rank.plans != nullptr && rank.plans->options().planner;
  add(facts, Guard::Kind::kEquality, "planner",
      chosen ? std::string(to_string(*rank.plans->options().planner)) : "default");
  return facts;
}

std::vector<Guard> guards_of(std::vector<Guard> facts,
                             const std::optional<std::int32_t>& sized_at) {
  // "x.shape[0]", and not a property of it.
  const auto says_size = [](const Guard& fact) {
    const std::size_t begin = fact.source.rfind(".shape[");
    return begin != std::string::npos && fact.source.find(']', begin) + 1 == fact.source.size();
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
    fail(Fix{"count inputs and dims from 0"},
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
  captured.graph_.guards = guards_of(std::move(facts), recorder.sized_at());
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
