// Every question takes one path: the row of its kind's table, the guard of the object where it has
// a source, the answer, and an entry in the log of folded answers.
#include "trace/traced_value.h"

#include <algorithm>
#include <array>

#include "autograd/program.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "tensor/device.h"
#include "trace/backward_hooks.h"
#include "trace/emitter.h"
#include "trace/guards.h"
#include "trace/traced_members.h"

namespace shardlab {

namespace {

constexpr std::array<std::string_view, kTracedKinds> kKindNames = {
    "tensor",    "constant",    "enum constant", "world",         "placement type",
    "placement", "device mesh", "process group", "backward hook", "bound method"};

std::string_view type_name_of(const Argument& argument) {
  if (argument.is_none()) return "None";
  if (argument.is_string()) return "str";
  if (argument.is_list() || argument.is_ints()) return "tuple";
  if (argument.is_dtype()) return "dtype";
  if (!argument.is_scalar()) return "object";
  switch (argument.scalar().category()) {
    case Category::kBool:
      return "bool";
    case Category::kInteger:
      return "int";
    case Category::kFloat:
      return "float";
    default:
      return "complex";
  }
}

std::int32_t line_now() {
  const RankContext* rank = current_rank_or_null();
  return rank != nullptr && !rank->position.in_cpp() ? rank->position.line : 0;
}

std::string text_of(const TracedValue& value) {
  TextEmitter text;
  try {
    value.reconstruct(text);
    return text.take();
  } catch (const Error&) {
    return fmt::format("({})", to_string(value.kind()));
  }
}

std::string text_of(const TracedCall& call) {
  std::vector<std::string> texts;
  for (const TracedValue& value : call.positional) texts.push_back(text_of(value));
  for (const auto& [name, value] : call.keywords) texts.push_back(name + "=" + text_of(value));
  return fmt::format("({})", text_of_list(texts, ", "));
}

std::vector<std::string> listed(TracedKind kind, bool methods) {
  std::vector<std::string> names;
  for (const TracedMember& member : members_of(kind)) {
    const bool callable = member.use != MemberUse::kAttribute;
    const bool value = member.use != MemberUse::kMethod;
    if (methods ? callable : value) names.emplace_back(member.name);
  }
  return names;
}

std::uint64_t hash_pointer(const void* pointer) {
  return hash_mix(7, reinterpret_cast<std::uintptr_t>(pointer));
}

struct HashOfObject {
  std::uint64_t operator()(const DTensor& value) const { return hash_pointer(value.impl()); }
  std::uint64_t operator()(const Argument& value) const { return value.hash(); }
  std::uint64_t operator()(const EnumConstant& value) const {
    return std::hash<std::string>()(value.name);
  }
  std::uint64_t operator()(WorldMeta value) const {
    return hash_mix(11, static_cast<std::uint64_t>(value));
  }
  std::uint64_t operator()(const std::shared_ptr<PlacementObject>& value) const {
    return hash_mix(hash_pointer(value->type), hash_of(value->value));
  }
  std::uint64_t operator()(const MeshLayout* value) const { return value->hash(); }
  std::uint64_t operator()(const auto& value) const {
    if constexpr (requires { value.method; }) {
      return hash_mix(value.self->hash(), std::hash<std::string>()(value.method));
    } else {
      return hash_pointer(&*value);
    }
  }
};

}  // namespace

std::string_view to_string(TracedKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

TracedKind TracedValue::kind() const {
  static_assert(std::variant_size_v<Object> == kTracedKinds);
  return static_cast<TracedKind>(object_.index());
}

std::string TracedValue::type_name() const {
  if (kind() == TracedKind::kConstant) {
    return std::string(type_name_of(std::get<Argument>(object_)));
  }
  if (kind() == TracedKind::kPlacement) {
    return std::string(TracedObject::placement(*this)->type->name);
  }
  constexpr std::array<std::string_view, kTracedKinds> kTypes = {
      "DTensor", "",           "enum",         "WorldMeta",    "type",
      "",        "DeviceMesh", "ProcessGroup", "BackwardHook", "method"};
  return std::string(kTypes[static_cast<std::size_t>(kind())]);
}

std::optional<TracedConstant> TracedValue::constant() const {
  switch (kind()) {
    case TracedKind::kConstant:
      return std::get<Argument>(object_);
    case TracedKind::kEnumConstant:
      return std::get<EnumConstant>(object_);
    case TracedKind::kPlacementType:
      return std::get<const PlacementType*>(object_);
    case TracedKind::kPlacement:
      return *TracedObject::placement(*this);
    case TracedKind::kDeviceMesh:
      return TracedObject::mesh(*this);
    case TracedKind::kProcessGroup:
      return &TracedObject::group(*this);
    default:
      return std::nullopt;
  }
}

TracedConstant TracedValue::as_constant() const {
  if (auto value = constant()) {
    guard();
    return std::move(*value);
  }
  tracing_->break_graph({.gb_type = "a value that is not a constant",
                         .context = std::string(to_string(kind())),
                         .explanation = "its object is not known before the program runs, or is "
                                        "not compared by what it is",
                         .hints = {"give a number, a text, a placement, a mesh or a group"}});
}

const Argument& TracedValue::as_argument() const {
  if (const auto* argument = std::get_if<Argument>(&object_)) {
    guard();
    return *argument;
  }
  tracing_->break_graph({.gb_type = "an argument that is not a plain constant",
                         .context = fmt::format("{} {}", to_string(kind()), text_of(*this)),
                         .explanation = "members of traced objects are folded over constants",
                         .hints = {"give a number or a text"}});
}

TracedProxy TracedValue::as_proxy() const {
  if (const auto* x = std::get_if<DTensor>(&object_)) return {*x, -1};
  if (kind() == TracedKind::kBackwardHook) return {DTensor(), TracedObject::hook(*this).node};
  tracing_->break_graph({.gb_type = "a value that is not part of a graph",
                         .context = std::string(to_string(kind())),
                         .explanation = "it becomes constants and guards",
                         .hints = {"take the tensor, or ask for the constant"}});
}

// The fact on which the graph depends where the object has a source (T-56).
void TracedValue::guard() const {
  if (!source_) return;
  switch (kind()) {
    case TracedKind::kConstant:
      return tracing_->guard(Guard::Kind::kEquality, *source_, std::get<Argument>(object_).text());
    case TracedKind::kPlacement:
      return tracing_->guard(Guard::Kind::kEquality, *source_, text_of(*this));
    case TracedKind::kDeviceMesh:
      tracing_->guard(Guard::Kind::kIdentity, *source_, mesh_fact(*TracedObject::mesh(*this)));
      return tracing_->guard(Guard::Kind::kEquality, source_->attribute("device_type"),
                             std::string(current_rank().device->type()));
    case TracedKind::kProcessGroup:
      return tracing_->guard(Guard::Kind::kIdentity, *source_,
                             group_fact(TracedObject::group(*this)));
    default:
      return;
  }
}

TracedValue TracedValue::bound(std::string_view method) const {
  return {*tracing_, Bound{std::make_shared<const TracedValue>(*this), std::string(method)}, {}};
}

TracedValue TracedValue::ask(const TracedMember& member, const TracedCall& call) const {
  guard();
  const bool by_values = member.run_on_values != nullptr;
  const TracedValue answer =
      by_values
          ? member.run_on_values(*tracing_, *this, call)
          : member.run(*tracing_, *this, bound_constants(member.name, member.parameters, call));
  tracing_->fold({.object = source_ ? source_->text() : text_of(*this),
                  .member = std::string(member.name) +
                            (member.use == MemberUse::kAttribute ? "" : text_of(call)),
                  .value = text_of(answer),
                  .by_rank = member.answers == Answers::kByRank,
                  .line = line_now()});
  return answer;
}

TracedValue TracedValue::get_attr(std::string_view name) const {
  const TracedMember* member = find_member(kind(), name);
  if (member == nullptr || member->use == MemberUse::kMethod) {
    tracing_->refuse_member(to_string(kind()), name, listed(kind(), false));
  }
  return member->use == MemberUse::kMethodValue ? bound(name) : ask(*member, {});
}

TracedValue TracedValue::call_method(std::string_view name, const TracedCall& call) const {
  const TracedMember* member = find_member(kind(), name);
  if (member == nullptr || member->use == MemberUse::kAttribute) {
    tracing_->refuse_member(to_string(kind()), fmt::format("{}()", name), listed(kind(), true));
  }
  return ask(*member, call);
}

TracedValue TracedValue::call(const TracedCall& call) const {
  if (const auto* method = std::get_if<Bound>(&object_)) {
    return method->self->call_method(method->method, call);
  }
  // Without a source the type itself would have to be part of the graph (T-21).
  if (kind() != TracedKind::kPlacementType || !source_) {
    tracing_->refuse_member(to_string(kind()), "__call__()", {});
  }
  auto made = std::make_shared<PlacementObject>();
  made->type = &TracedObject::type(*this);
  const TracedValue value(*tracing_, std::move(made), std::nullopt);
  value.call_method("__init__", call);
  return value;
}

void TracedValue::reconstruct(Emitter& emitter) const {
  if (emit(*this, emitter)) return;
  tracing_->break_graph({.gb_type = "a value that cannot be made again",
                         .context = fmt::format("{} {}", to_string(kind()), type_name()),
                         .explanation = "no expression gives an equal object",
                         .hints = {"do not hand it on from the captured part"}});
}

std::uint64_t TracedValue::hash() const { return std::visit(HashOfObject(), object_); }

bool TracedValue::equals(const TracedValue& other) const {
  return as_constant() == other.as_constant();
}

TracedValue Tracing::wrap(HostObject object, std::optional<Source> source) {
  if (!trace_available()) {
    break_graph(
        {.gb_type = "distributed package unavailable",
         .context = "",
         .explanation = "there is no world of ranks here: none runs on this thread, or the "
                        "build lacks its backend",
         .hints = {
             "trace on a rank of a world; meson configure build lists the switches of backends"}});
  }
  const auto made = [&](TracedValue::Object value) {
    return TracedValue(*this, std::move(value), std::move(source));
  };
  if (const auto* tensor = std::any_cast<DTensor>(&object)) return made(*tensor);
  if (const auto* constant = std::any_cast<Argument>(&object)) return made(*constant);
  if (const auto* constant = std::any_cast<EnumConstant>(&object)) return made(*constant);
  if (is_world_meta(object)) return made(std::any_cast<WorldMeta>(object));
  if (is_placement_type(object)) return made(std::any_cast<const PlacementType*>(object));
  if (is_placement(object)) return made(std::make_shared<PlacementObject>(placement_in(object)));
  if (is_device_mesh(object)) return made(std::any_cast<const MeshLayout*>(object));
  if (is_process_group(object)) return made(&group_in(object));
  break_graph({.gb_type = "an object that is not traced",
               .context = object.has_value() ? object.type().name() : "nothing",
               .explanation = "no kind of traced value has its type",
               .hints = {"give what it consists of: tensors, numbers, meshes, groups"}});
}

TracedValue Tracing::constant(Argument value) { return {*this, std::move(value), std::nullopt}; }

TracedValue Tracing::hook_value(std::shared_ptr<const BackwardHook> hook) {
  return {*this, std::move(hook), std::nullopt};
}

void Tracing::guard(Guard guard) {
  const bool known = std::ranges::any_of(guards_, [&](const Guard& other) {
    return other.kind == guard.kind && other.source == guard.source &&
           other.expected == guard.expected;
  });
  if (!known) guards_.push_back(std::move(guard));
}

void Tracing::guard(Guard::Kind kind, const Source& source, std::string expected) {
  guard(
      {.kind = kind, .source = source.text(), .expected = std::move(expected), .line = line_now()});
}

void Tracing::fold(Fold fold) { folds_.push_back(std::move(fold)); }

void Tracing::construct(const MeshLayout* layout, std::string action) {
  if (current_rank().meshes->contains(layout)) return;
  program_calls().perform(MeshEvent{layout, {}});
  setup_actions_.push_back(std::move(action));
}

void Tracing::flatten(const MeshLayout* layout) {
  std::vector<std::size_t> dims(layout->ndim());
  for (std::size_t dim = 0; dim < dims.size(); ++dim) dims[dim] = dim;
  program_calls().perform(MeshEvent{layout, std::move(dims)});
}

std::int64_t Tracing::add_node(HookNode node) {
  hook_nodes_.push_back(std::move(node));
  return static_cast<std::int64_t>(hook_nodes_.size()) - 1;
}

void Tracing::break_graph(GraphBreak reason) {
  breaks_.push_back(reason);
  throw error_of(reason);
}

void Tracing::refuse_member(std::string_view kind, std::string_view member,
                            const std::vector<std::string>& listed) {
  const std::string_view name = member.substr(0, member.find('('));
  std::vector<std::string> hints = {"ask for it outside of the captured part"};
  if (!listed.empty()) hints.push_back(suggest(name, listed));
  break_graph({.gb_type = "an unlisted member of a traced value",
               .context = fmt::format("{}.{}", kind, member),
               .explanation = "what it gives is not known to rest on the object alone",
               .hints = std::move(hints)});
}

std::string group_fact(const ProcessGroup& group) {
  return fmt::format("{} on ranks {}", group.name(), text_of_list(group.identity().ranks(), ","));
}

}  // namespace shardlab
