// Placement types are rows: a type of a user's names the one that it is derived from, and inherits
// everything that it does not have itself.
#include "trace/host_objects.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <typeinfo>

#include "base/error.h"
#include "base/rank_context.h"

namespace shardlab {

namespace {

// Arguments are given by programs and by texts of files: their kinds are checked.
const Argument& given(const Arguments& args, std::size_t place, std::string_view name,
                      const PlacementType& type) {
  if (place < args.size() && !args[place].is_none()) return args[place];
  fail(Fix{fmt::format("give {}: Shard(0), StridedShard(0, 2)", name)},
       "{}: argument '{}' is missing", type.name, name);
}

std::int64_t whole_number(const Argument& value, std::string_view name, const PlacementType& type) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const bool whole = value.is_scalar() && value.scalar().is_integral();
  if (whole && value.to_int() >= -kMost && value.to_int() <= kMost) return value.to_int();
  fail(Fix{"give a whole number of 32 bits"}, "{}: argument '{}' is {}", type.name, name,
       value.text());
}

ReduceOp reduction_named(const Argument& name) {
  const auto op = name.is_string() ? parse_reduce_op(name.string()) : std::nullopt;
  if (op) return *op;
  fail(Fix{"Partial(\"sum\")"}, "{} is not a reduction", name.text());
}

std::int64_t given_number(const PlacementObject& self, const Arguments& args, std::size_t place,
                          std::string_view name) {
  return whole_number(given(args, place, name, *self.type), name, *self.type);
}

Argument initialise_shard(PlacementObject& self, const Arguments& args) {
  self.value = Placement::shard(given_number(self, args, 0, "dim"));
  return {};
}

Argument initialise_strided(PlacementObject& self, const Arguments& args) {
  self.value = Placement::strided_shard(given_number(self, args, 0, "dim"),
                                        given_number(self, args, 1, "split_factor"));
  return {};
}

Argument initialise_partial(PlacementObject& self, const Arguments& args) {
  const bool named = !args.empty() && !args[0].is_none();
  self.value = Placement::partial(named ? reduction_named(args[0]) : ReduceOp::kSum);
  return {};
}

Argument dim_of(const Placement& placement) { return std::int64_t{placement.dim}; }
Argument factor_of(const Placement& placement) { return placement.split_factor; }
Argument reduction_of(const Placement& placement) { return std::string(to_string(placement.op)); }

void set_dim(PlacementObject& self, const Argument& value) {
  self.value.dim = static_cast<std::int32_t>(whole_number(value, "dim", *self.type));
}
void set_factor(PlacementObject& self, const Argument& value) {
  self.value.split_factor = whole_number(value, "split_factor", *self.type);
}
void set_reduction(PlacementObject& self, const Argument& value) {
  self.value.op = reduction_named(value);
}

constexpr PlacementField kPlacementFields[] = {
    {"dim", "shards", [](const Placement& p) { return p.is_shard(); }, dim_of, set_dim},
    {"reduce_op", "partials", [](const Placement& p) { return p.is_partial(); }, reduction_of,
     set_reduction},
    {"split_factor", "strided shards", [](const Placement& p) { return p.is_strided_shard(); },
     factor_of, set_factor}};

// A field by its name: the object keeps its type.
Argument set_field(PlacementObject& self, const Arguments& args) {
  const Argument& name = given(args, 0, "name", *self.type);
  const Argument& value = given(args, 1, "value", *self.type);
  const PlacementField* field = name.is_string() ? find_placement_field(name.string()) : nullptr;
  if (field == nullptr) {
    fail(Fix{"dim, split_factor or reduce_op"}, "{} has no field {}", self.type->name, name.text());
  }
  field->set(self, value);
  return {};
}

// A strided shard is none, as in PyTorch.
Argument answer_is_shard(PlacementObject& self, const Arguments& args) {
  const bool any = args.empty() || args[0].is_none();
  return self.value.is_plain_shard() &&
         (any || self.value.dim == given_number(self, args, 0, "dim"));
}

Argument answer_is_partial(PlacementObject& self, const Arguments& args) {
  const bool any = args.empty() || args[0].is_none();
  return self.value.is_partial() && (any || self.value.op == reduction_named(args[0]));
}

Argument answer_is_replicate(PlacementObject& self, const Arguments&) {
  return self.value.is_replicate();
}

constexpr PlacementMethod kPlacementMethods[] = {{"__setattr__", {"name", "value"}, set_field},
                                                 {"is_partial", {"reduce_op"}, answer_is_partial},
                                                 {"is_replicate", {}, answer_is_replicate},
                                                 {"is_shard", {"dim"}, answer_is_shard}};
constexpr PlacementMethod kShardMethods[] = {{"__init__", {"dim"}, initialise_shard}};
constexpr PlacementMethod kStridedMethods[] = {
    {"__init__", {"dim", "split_factor"}, initialise_strided}};
constexpr PlacementMethod kPartialMethods[] = {{"__init__", {"reduce_op"}, initialise_partial}};

template <typename T>
const T* held(const HostObject& object) {
  return std::any_cast<T>(&object);
}

Communicator* communicator_in(const HostObject& object) {
  if (const auto* group = held<ProcessGroup*>(object)) return *group;
  const auto* any = held<Communicator*>(object);
  return any != nullptr ? *any : nullptr;
}

bool is_exactly_a_group(const Communicator* group) {
  return group != nullptr && typeid(*group) == typeid(ProcessGroup);
}

}  // namespace

bool trace_available() {
  const RankContext* rank = current_rank_or_null();
  return rank != nullptr && rank->world != nullptr;
}

std::string_view to_string(WorldMeta meta) {
  return meta == WorldMeta::kGroup ? "group" : "GroupMember";
}

const PlacementField* find_placement_field(std::string_view name) {
  const auto found = std::ranges::find(kPlacementFields, name, &PlacementField::name);
  return found == std::end(kPlacementFields) ? nullptr : &*found;
}

bool PlacementType::derives_from(const PlacementType& other) const {
  for (const PlacementType* type = this; type != nullptr; type = type->base) {
    if (type == &other) return true;
  }
  return false;
}

const PlacementMethod* PlacementType::find(std::string_view method) const {
  for (const PlacementType* type = this; type != nullptr; type = type->base) {
    for (const PlacementMethod& own : type->methods) {
      if (own.name == method) return own.run != nullptr ? &own : nullptr;
    }
  }
  return nullptr;
}

const PlacementType& placement_type() {
  static const PlacementType kType{"Placement", nullptr, kPlacementMethods};
  return kType;
}

const PlacementType& shard_type() {
  static const PlacementType kType{"Shard", &placement_type(), kShardMethods};
  return kType;
}

const PlacementType& strided_shard_type() {
  static const PlacementType kType{"StridedShard", &placement_type(), kStridedMethods};
  return kType;
}

const PlacementType& replicate_type() {
  static const PlacementType kType{"Replicate", &placement_type(), {}};
  return kType;
}

const PlacementType& partial_type() {
  static const PlacementType kType{"Partial", &placement_type(), kPartialMethods};
  return kType;
}

const PlacementType& type_of(const Placement& placement) {
  static const PlacementType kNorm{"NormPartial", &partial_type(), {}};
  static const PlacementType kMask{"MaskPartial", &partial_type(), {}};
  switch (placement.kind) {
    case PlacementKind::kReplicate:
      return replicate_type();
    case PlacementKind::kShard:
      return shard_type();
    case PlacementKind::kStridedShard:
      return strided_shard_type();
    case PlacementKind::kPartial:
      return partial_type();
    case PlacementKind::kNormPartial:
      return kNorm;
    case PlacementKind::kMaskPartial:
      return kMask;
  }
  fail(ErrorKind::kInternal, "a placement of no kind");
}

bool is_world_meta(const HostObject& object) {
  return trace_available() && held<WorldMeta>(object) != nullptr;
}

bool is_placement_type(const HostObject& object) {
  const auto* type = held<const PlacementType*>(object);
  return trace_available() && type != nullptr && (*type)->derives_from(placement_type());
}

bool is_placement(const HostObject& object) {
  if (!trace_available()) return false;
  if (held<Placement>(object) != nullptr) return true;
  const auto* own = held<PlacementObject>(object);
  return own != nullptr && own->type != nullptr && own->type->derives_from(placement_type());
}

bool is_device_mesh(const HostObject& object) {
  return trace_available() && held<const MeshLayout*>(object) != nullptr;
}

bool is_process_group(const HostObject& object) {
  return trace_available() && is_exactly_a_group(communicator_in(object));
}

PlacementObject placement_in(const HostObject& object) {
  if (const auto* own = held<PlacementObject>(object)) return *own;
  const auto placement = std::any_cast<Placement>(object);
  return {&type_of(placement), placement};
}

ProcessGroup& group_in(const HostObject& object) {
  return dynamic_cast<ProcessGroup&>(*communicator_in(object));
}

}  // namespace shardlab
