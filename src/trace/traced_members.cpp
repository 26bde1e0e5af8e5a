// Each row returns the answer of the object itself on this rank.
#include "trace/traced_members.h"

#include <algorithm>

#include "base/error.h"
#include "base/fixed_text.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "mesh/spec.h"
#include "tensor/device.h"
#include "trace/backward_hooks.h"

namespace shardlab {

const DTensor& TracedObject::tensor(const TracedValue& value) {
  return std::get<DTensor>(value.object_);
}
const Argument& TracedObject::constant(const TracedValue& value) {
  return std::get<Argument>(value.object_);
}
const PlacementType& TracedObject::type(const TracedValue& value) {
  return *std::get<const PlacementType*>(value.object_);
}
const std::shared_ptr<PlacementObject>& TracedObject::placement(const TracedValue& value) {
  return std::get<std::shared_ptr<PlacementObject>>(value.object_);
}
const MeshLayout* TracedObject::mesh(const TracedValue& value) {
  return std::get<const MeshLayout*>(value.object_);
}
ProcessGroup& TracedObject::group(const TracedValue& value) {
  return *std::get<ProcessGroup*>(value.object_);
}
const BackwardHook& TracedObject::hook(const TracedValue& value) {
  return *std::get<std::shared_ptr<const BackwardHook>>(value.object_);
}

std::optional<Source> source_of(const TracedValue& self, std::string_view attribute) {
  if (!self.source()) return std::nullopt;
  return self.source()->attribute(attribute);
}

Argument given_names(const MeshLayout& layout) {
  if (!layout.named()) return {};
  return ArgumentList(layout.names().begin(), layout.names().end());
}

namespace {

// world

Source required_source(const TracedValue& self, std::string_view attribute) {
  if (const auto source = source_of(self, attribute)) return *source;
  fail(ErrorKind::kInternal, "{}.{} is asked of a world without a source", self.type_name(),
       attribute);
}

TracedValue world_group(Tracing& tracing, const TracedValue& self, const Arguments&) {
  const Source source = required_source(self, "WORLD");
  ProcessGroup* world = current_rank().world;
  tracing.guard(Guard::Kind::kIdentity, source, group_fact(*world));
  return tracing.wrap(world, source);
}

TracedValue no_member(Tracing& tracing, const TracedValue& self, const Arguments&) {
  const Source source = required_source(self, "NON_GROUP_MEMBER");
  const EnumConstant none;
  tracing.guard(Guard::Kind::kIdentity, source, none.name);
  return tracing.wrap(none, source);
}

constexpr TracedMember kWorld[] = {
    {"NON_GROUP_MEMBER", MemberUse::kAttribute, Answers::kAlike, no_member},
    {"WORLD", MemberUse::kAttribute, Answers::kAlike, world_group}};

// tensor

TracedValue mesh_of_tensor(Tracing& tracing, const TracedValue& self, const Arguments&) {
  const DTensor& x = TracedObject::tensor(self);
  if (!x.distributed()) {
    fail(Fix{"ask a distributed tensor"}, "a plain tensor has no mesh");
  }
  return tracing.wrap(x.spec()->layout(), source_of(self, "mesh"));
}

constexpr TracedMember kTensor[] = {
    {"device_mesh", MemberUse::kAttribute, Answers::kAlike, mesh_of_tensor}};

// placement

template <FixedText kName>
TracedValue placement_field(Tracing& tracing, const TracedValue& self, const Arguments&) {
  const PlacementObject& of = *TracedObject::placement(self);
  const PlacementField& field = *find_placement_field(kName);
  check_lookup(tracing, of);
  if (field.has(of.value)) return tracing.constant(field.get(of.value));
  tracing.break_graph(
      {.gb_type = "a placement without this attribute",
       .context = fmt::format("placement {}.{}", self.type_name(), field.name),
       .explanation = "the program asks for what this kind does not have",
       .hints = {fmt::format("{} have one: ask is_shard() or is_partial() first", field.owners)}});
}

template <FixedText kName>
constexpr TracedMember field_row() {
  return {kName, MemberUse::kAttribute, Answers::kAlike, placement_field<kName>};
}

constexpr char kInit[] = "__init__";
constexpr char kSet[] = "__setattr__";

template <FixedText kName>
TracedValue folded(Tracing& tracing, const TracedValue& self, const TracedCall& call) {
  return call_placement_method(tracing, self, kName, call);
}

template <FixedText kName>
constexpr TracedMember folded_row() {
  return {kName, MemberUse::kMethod, Answers::kAlike, nullptr, {}, folded<kName>};
}

constexpr TracedMember kPlacement[] = {folded_row<"__init__">(),     folded_row<"__setattr__">(),
                                       field_row<"dim">(),           folded_row<"is_partial">(),
                                       folded_row<"is_replicate">(), folded_row<"is_shard">(),
                                       field_row<"reduce_op">(),     field_row<"split_factor">()};

// process group

TracedValue group_rank(Tracing& tracing, const TracedValue& self, const Arguments&) {
  return tracing.constant(TracedObject::group(self).rank());
}

TracedValue group_size(Tracing& tracing, const TracedValue& self, const Arguments&) {
  return tracing.constant(TracedObject::group(self).size());
}

TracedValue group_name(Tracing& tracing, const TracedValue& self, const Arguments&) {
  return tracing.constant(TracedObject::group(self).name());
}

TracedValue group_ranks(Tracing& tracing, const TracedValue& self, const Arguments&) {
  const std::vector<std::int64_t> ranks = TracedObject::group(self).identity().ranks();
  return tracing.constant(Dims(ranks.begin(), ranks.end()));
}

TracedValue backend_name(Tracing& tracing, const TracedValue&, const Arguments&) {
  return tracing.constant(tracing.options().backend);
}

constexpr TracedMember kGroup[] = {
    {"_get_backend_name", MemberUse::kMethod, Answers::kAlike, backend_name},
    {"group_name", MemberUse::kAttribute, Answers::kAlike, group_name},
    {"rank", MemberUse::kMethodValue, Answers::kByRank, group_rank},
    {"ranks", MemberUse::kMethod, Answers::kByRank, group_ranks},
    {"size", MemberUse::kMethodValue, Answers::kAlike, group_size}};

// backward hook

TracedValue setup(Tracing& tracing, const TracedValue& self, std::string_view method,
                  const TracedCall& call) {
  if (call.positional.size() != 1 || !call.keywords.empty()) {
    fail(Fix{fmt::format("hook.{}(tensor)", method)}, "{} takes one argument, not {}", method,
         call.positional.size() + call.keywords.size());
  }
  return setup_hook(tracing, TracedObject::hook(self), method, call.positional[0]);
}

TracedValue setup_input(Tracing& tracing, const TracedValue& self, const TracedCall& call) {
  return setup(tracing, self, "setup_input_hook", call);
}

TracedValue setup_output(Tracing& tracing, const TracedValue& self, const TracedCall& call) {
  return setup(tracing, self, "setup_output_hook", call);
}

constexpr TracedMember kHook[] = {
    {"setup_input_hook", MemberUse::kMethod, Answers::kAlike, nullptr, {}, setup_input},
    {"setup_output_hook", MemberUse::kMethod, Answers::kAlike, nullptr, {}, setup_output}};

}  // namespace

std::span<const TracedMember> members_of(TracedKind kind) {
  switch (kind) {
    case TracedKind::kTensorProxy:
      return kTensor;
    case TracedKind::kWorldMeta:
      return kWorld;
    case TracedKind::kPlacement:
      return kPlacement;
    case TracedKind::kDeviceMesh:
      return traced_mesh_members();
    case TracedKind::kProcessGroup:
      return kGroup;
    case TracedKind::kBackwardHook:
      return kHook;
    default:
      return {};
  }
}

const TracedMember* find_member(TracedKind kind, std::string_view name) {
  const auto members = members_of(kind);
  const auto found = std::ranges::find(members, name, &TracedMember::name);
  return found == members.end() ? nullptr : &*found;
}

Arguments bound_constants(std::string_view member, std::array<std::string_view, 2> parameters,
                          const TracedCall& call) {
  Arguments args;
  if (parameters[0].empty()) return args;
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(parameters, [](std::string_view name) { return !name.empty(); }));
  if (call.positional.size() > count) {
    fail(Fix{"give fewer"}, "{}: there are {} arguments, at most {} are possible", member,
         call.positional.size(), count);
  }
  for (const TracedValue& value : call.positional) args.push_back(value.as_argument());
  for (const auto& [name, value] : call.keywords) {
    const auto found = std::ranges::find(parameters, std::string_view(name));
    const auto place = static_cast<std::size_t>(found - parameters.begin());
    if (found == parameters.end() || place < call.positional.size()) {
      fail(Fix{fmt::format("give {} once", parameters[0])}, "{}: unknown or repeated argument '{}'",
           member, name);
    }
    if (args.size() <= place) args.resize(place + 1);
    args[place] = value.as_argument();
  }
  return args;
}

void check_lookup(Tracing& tracing, const PlacementObject& placement) {
  if (!placement.type->own_lookup) return;
  tracing.break_graph(
      {.gb_type = "placement with custom attribute lookup",
       .context = std::string(placement.type->name),
       .explanation = "what its attributes give is the type's own business",
       .hints = {"use a type without a lookup of its own", "move it out of the captured part"}});
}

TracedValue call_placement_method(Tracing& tracing, const TracedValue& self,
                                  std::string_view method, const TracedCall& call) {
  PlacementObject& object = *TracedObject::placement(self);
  check_lookup(tracing, object);
  const PlacementMethod* found = object.type->find(method);
  if (found == nullptr && method == kInit) return tracing.constant({});
  if (found == nullptr) {
    fail(ErrorKind::kInternal, "the placement type {} has no '{}'", object.type->name, method);
  }
  const Argument result = found->run(object, bound_constants(method, found->parameters, call));
  return method == kSet ? self : tracing.constant(result);
}

}  // namespace shardlab
