// One row for each function: its identity, and its call on constants.
#include "api/traced_functions.h"

#include "api/groups.h"
#include "api/mesh.h"
#include "autograd/autograd.h"
#include "base/error.h"

namespace shardlab {

namespace {

using FromLocal = DTensor (*)(const DTensor&, const MeshLayout*, const Placements&,
                              const std::optional<TensorMeta>&);
using FromLocalText = DTensor (*)(const DTensor&, const MeshLayout*, std::string_view,
                                  const std::optional<Dims>&);

template <typename Function>
bool is_same(const HostObject& object, Function function) {
  const auto* held = std::any_cast<Function>(&object);
  return held != nullptr && *held == function;
}

template <typename T>
const T& constant_of(const TracedConstant& constant, std::string_view what) {
  if (const auto* value = std::get_if<T>(&constant)) return *value;
  fail(Fix{fmt::format("give {}", what)}, "an argument is not {}", what);
}

// A group; None, and a value for no group, are null.
const ProcessGroup* group_of(const TracedValue& value) {
  const TracedConstant constant = value.as_constant();
  if (const auto* group = std::get_if<const ProcessGroup*>(&constant)) return *group;
  if (std::holds_alternative<EnumConstant>(constant)) return nullptr;
  if (constant_of<Argument>(constant, "a process group").is_none()) return nullptr;
  fail(Fix{"give a process group"}, "an argument is not a process group");
}

const MeshLayout* mesh_of(const TracedValue& value) {
  return constant_of<const MeshLayout*>(value.as_constant(), "a mesh");
}

using Given = std::vector<TracedValue>;

struct GroupFunction {
  bool (*is)(const HostObject& object);
  std::string_view name;
  std::size_t arguments;
  bool by_rank;
  Argument (*run)(const Given& given);
};

Argument size_by_name(const Given& given) {
  return get_group_size_by_name(mesh_of(given[0]), given[1].as_argument().string());
}

Argument tag_of(const Given& given) {
  const ProcessGroup* group = group_of(given[0]);
  if (group == nullptr) {
    fail(Fix{"give a process group"}, "get_group_tag: there is no group");
  }
  return get_group_tag(*group);
}

Argument not_in_group(const Given& given) { return rank_not_in_group(group_of(given[0])); }

Argument ranks_of(const Given& given) {
  const std::vector<std::int64_t> ranks = get_process_group_ranks(group_of(given[0]));
  return Dims(ranks.begin(), ranks.end());
}

Argument name_by_ranks(const Given& given) {
  const Dims& sizes = given[1].as_argument().ints();
  const std::vector<std::int64_t> ranks(sizes.begin(), sizes.end());
  return resolve_group_name_by_ranks_and_tag(mesh_of(given[0]), ranks,
                                             given[2].as_argument().string());
}

const GroupFunction kGroupFunctions[] = {
    {[](const HostObject& object) { return is_same(object, &get_group_size_by_name); },
     "get_group_size_by_name", 2, false, size_by_name},
    {[](const HostObject& object) { return is_same(object, &get_group_tag); }, "get_group_tag", 1,
     false, tag_of},
    {[](const HostObject& object) { return is_same(object, &rank_not_in_group); },
     "rank_not_in_group", 1, true, not_in_group},
    {[](const HostObject& object) { return is_same(object, &get_process_group_ranks); },
     "get_process_group_ranks", 1, true, ranks_of},
    {[](const HostObject& object) { return is_same(object, &resolve_group_name_by_ranks_and_tag); },
     "resolve_group_name_by_ranks_and_tag", 3, true, name_by_ranks},
};

const GroupFunction* find_group_function(const HostObject& function) {
  for (const GroupFunction& row : kGroupFunctions) {
    if (row.is(function)) return &row;
  }
  return nullptr;
}

}  // namespace

bool is_from_local(const HostObject& function) {
  if (!trace_available()) return false;
  return is_same<FromLocal>(function, &from_local) || is_same<FromLocalText>(function, &from_local);
}

bool is_constant_group_function(const HostObject& function) {
  return trace_available() && find_group_function(function) != nullptr;
}

TracedValue call_group_function(Tracing& tracing, const HostObject& function,
                                const TracedCall& call) {
  const GroupFunction* row = find_group_function(function);
  check_invariant(row != nullptr, "a group function was recognised");
  if (call.positional.size() != row->arguments || !call.keywords.empty()) {
    fail(Fix{"give them in order"}, "{} takes {} arguments, not {}", row->name, row->arguments,
         call.positional.size() + call.keywords.size());
  }
  const TracedValue answer = tracing.constant(row->run(call.positional));
  tracing.fold({.object = "function",
                .member = std::string(row->name),
                .value = answer.as_argument().text(),
                .by_rank = row->by_rank,
                .line = current_rank().position.line});
  return answer;
}

}  // namespace shardlab
