// One function describes how each kind is made; both ends and the reader use expressions only.
#include "trace/emitter.h"

#include <algorithm>

#include "autograd/program.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "mesh/spec.h"
#include "tensor/device.h"
#include "trace/traced_members.h"

namespace shardlab {

namespace {

constexpr std::string_view kMeshName = "DeviceMesh";
constexpr std::string_view kWorldName = "group.WORLD";
constexpr std::string_view kNoMemberName = "group.NON_GROUP_MEMBER";

// Ranks as nested lists, the last dim inside.
Argument nested_ranks(const MeshLayout& layout, std::size_t dim, std::int64_t& next) {
  if (dim + 1 == layout.ndim()) {
    Dims row;
    for (std::int64_t i = 0; i < layout.size(dim); ++i) row.push_back(layout.rank_at_index(next++));
    return row;
  }
  ArgumentList rows;
  for (std::int64_t i = 0; i < layout.size(dim); ++i) {
    rows.push_back(nested_ranks(layout, dim + 1, next));
  }
  return rows;
}

void emit_mesh(const MeshLayout& layout, Emitter& emitter) {
  std::int64_t next = 0;
  emitter.load(kMeshName);
  emitter.constant(std::string(current_rank().device->type()));
  emitter.constant(nested_ranks(layout, 0, next));
  emitter.constant(given_names(layout));
  emitter.call(3);
}

bool emit_group(const ProcessGroup& group, Emitter& emitter) {
  const GroupIdentity& identity = group.identity();
  if (identity.layout == nullptr) {
    emitter.load(kWorldName);
    return true;
  }
  if (identity.mesh_dims.size() != 1) return false;
  emit_mesh(*identity.layout, emitter);
  emitter.constant(identity.layout->names()[identity.mesh_dims[0]]);
  emitter.method("get_group", 1);
  return true;
}

// Classes derived from Shard take its dim; of the others exactly the four are known.
bool emit_placement(const PlacementObject& object, Emitter& emitter) {
  const PlacementType& type = *object.type;
  const Placement& value = object.value;
  Arguments args;
  if (type.derives_from(shard_type())) {
    args = {std::int64_t{value.dim}};
  } else if (&type == &strided_shard_type()) {
    args = {std::int64_t{value.dim}, value.split_factor};
  } else if (&type == &partial_type()) {
    args = {std::string(to_string(value.op))};
  } else if (&type != &replicate_type()) {
    return false;
  }
  emitter.load(type);
  for (const Argument& arg : args) emitter.constant(arg);
  emitter.call(args.size());
  return true;
}

}  // namespace

bool emit(const TracedValue& value, Emitter& emitter) {
  switch (value.kind()) {
    case TracedKind::kConstant:
      emitter.constant(TracedObject::constant(value));
      return true;
    case TracedKind::kEnumConstant:
      emitter.load(kNoMemberName);
      return true;
    case TracedKind::kPlacementType:
      emitter.load(TracedObject::type(value));
      return true;
    case TracedKind::kPlacement:
      return emit_placement(*TracedObject::placement(value), emitter);
    case TracedKind::kDeviceMesh:
      emit_mesh(*TracedObject::mesh(value), emitter);
      return true;
    case TracedKind::kProcessGroup:
      return emit_group(TracedObject::group(value), emitter);
    default:
      return false;
  }
}

std::string TextEmitter::taken(std::size_t arguments) {
  check_invariant(stack_.size() > arguments, "a call has its arguments");
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(arguments);
  const std::vector<std::string> texts(first, stack_.end());
  stack_.erase(first, stack_.end());
  return fmt::format("({})", text_of_list(texts, ", "));
}

void TextEmitter::call(std::size_t arguments) {
  const std::string texts = taken(arguments);
  stack_.back() += texts;
}

void TextEmitter::method(std::string_view name, std::size_t arguments) {
  const std::string texts = taken(arguments);
  stack_.back() += fmt::format(".{}{}", name, texts);
}

std::string TextEmitter::take() {
  check_invariant(stack_.size() == 1, "one expression");
  std::string text = std::move(stack_.back());
  stack_.clear();
  return text;
}

namespace {

Argument argument_in(const HostObject& object) {
  if (const auto* argument = std::any_cast<Argument>(&object)) return *argument;
  fail(Fix{"give numbers, texts and lists"}, "an argument is not a constant");
}

Arguments made_all(const std::vector<FactoryEmitter::Factory>& factories) {
  Arguments args;
  for (const auto& make : factories) args.push_back(argument_in(make()));
  return args;
}

[[noreturn]] void refuse_mesh(std::string_view why) {
  fail(Fix{"DeviceMesh(\"cpu\", [[0, 1], [2, 3]], [\"dp\", \"tp\"])"},
       "the expression of a mesh: {}", why);
}

// Rows of one dim are as long as its first.
void add_ranks(const Argument& ranks, std::size_t dim, MeshLayout::Init& init) {
  const auto add_size = [&](std::size_t size) {
    if (init.shape.size() == dim) init.shape.push_back(static_cast<std::int64_t>(size));
    if (init.shape[dim] != static_cast<std::int64_t>(size)) refuse_mesh("rows of several lengths");
  };
  if (ranks.is_ints()) {
    add_size(ranks.ints().size());
    for (const std::int64_t rank : ranks.ints()) init.ranks.push_back(rank);
    return;
  }
  if (!ranks.is_list()) refuse_mesh(ranks.text() + " among its ranks");
  add_size(ranks.list().size());
  for (const Argument& row : ranks.list()) add_ranks(row, dim + 1, init);
}

std::vector<std::string> names_in(const Argument& names) {
  if (names.is_none()) return {};
  std::vector<std::string> texts;
  if (!names.is_list()) refuse_mesh("names that are no list of texts");
  for (const Argument& name : names.list()) {
    if (!name.is_string()) refuse_mesh("a name that is not a text");
    texts.push_back(name.string());
  }
  return texts;
}

HostObject made_mesh(Arena& arena, const Arguments& args) {
  if (args.size() != 3 || !args[0].is_string()) refuse_mesh("it takes device, ranks and names");
  if (args[0].string() != current_rank().device->type()) {
    fail(Fix{"make it on its own device"}, "a mesh of {} on a rank of {}", args[0].string(),
         current_rank().device->type());
  }
  MeshLayout::Init init;
  add_ranks(args[1], 0, init);
  init.names = names_in(args[2]);
  const MeshLayout* layout = arena.layout(std::move(init));
  if (!current_rank().meshes->contains(layout)) program_calls().perform(MeshEvent{layout, {}});
  return layout;
}

HostObject made_placement(const PlacementType& type, const Arguments& args) {
  PlacementObject made{&type, {}};
  if (const PlacementMethod* init = type.find("__init__")) init->run(made, args);
  return made;
}

}  // namespace

void FactoryEmitter::load(std::string_view name) {
  if (name == kMeshName) return stack_.push_back({.make = nullptr, .makes_mesh = true});
  if (name == kWorldName) {
    return stack_.push_back({.make = [] { return HostObject(current_rank().world); }});
  }
  if (name == kNoMemberName) {
    return stack_.push_back({.make = [] { return HostObject(EnumConstant()); }});
  }
  std::vector<const PlacementType*> known = {&shard_type(), &strided_shard_type(),
                                             &replicate_type(), &partial_type()};
  known.insert(known.end(), types_.begin(), types_.end());
  const auto found = std::ranges::find(known, name, &PlacementType::name);
  if (found == known.end()) {
    fail(Fix{"Shard, StridedShard, Replicate, Partial, DeviceMesh, group.WORLD"},
         "'{}' is not a name that objects are made with", name);
  }
  load(**found);
}

void FactoryEmitter::load(const PlacementType& type) {
  stack_.push_back({.make = [type = &type] { return HostObject(type); }, .type = &type});
}

void FactoryEmitter::constant(const Argument& value) {
  stack_.push_back({.make = [value] { return HostObject(value); }});
}

FactoryEmitter::Item FactoryEmitter::popped() {
  if (stack_.empty()) fail(Fix{"give the whole text"}, "the expression is empty");
  Item item = std::move(stack_.back());
  stack_.pop_back();
  return item;
}

std::vector<FactoryEmitter::Factory> FactoryEmitter::taken(std::size_t arguments) {
  std::vector<Factory> factories(arguments);
  for (std::size_t i = arguments; i-- > 0;) factories[i] = popped().make;
  return factories;
}

void FactoryEmitter::call(std::size_t arguments) {
  const std::vector<Factory> args = taken(arguments);
  const Item called = popped();
  if (called.makes_mesh) {
    return stack_.push_back(
        {.make = [arena = arena_, args] { return made_mesh(*arena, made_all(args)); }});
  }
  if (called.type == nullptr) {
    fail(Fix{"call a class"}, "what the expression calls is not a class");
  }
  stack_.push_back(
      {.make = [type = called.type, args] { return made_placement(*type, made_all(args)); }});
}

void FactoryEmitter::method(std::string_view name, std::size_t arguments) {
  const std::vector<Factory> args = taken(arguments);
  const Item self = popped();
  if (name != "get_group" || arguments != 1) {
    fail(Fix{"get_group(\"tp\") of a mesh"}, "the method '{}' is not known", name);
  }
  stack_.push_back({.make = [self = self.make, args] {
    const HostObject mesh = self();
    const auto* const* layout = std::any_cast<const MeshLayout*>(&mesh);
    const Argument name = made_all(args)[0];
    if (layout == nullptr || !name.is_string()) refuse_mesh("get_group takes a text, of a mesh");
    const auto dim = (*layout)->find_dim(name.string());
    if (!dim) refuse_mesh(name.text() + " is none of its dims");
    return HostObject(&device_mesh(*layout).group(*dim));
  }});
}

FactoryEmitter::Factory FactoryEmitter::take() { return popped().make; }

}  // namespace shardlab
