// host_objects.h - the objects of a program that a capture replaces by traced values, and how they
// are recognised: by their exact type, and functions by identity. Nothing here fails; where no rank
// runs nothing is recognised (T-12).
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/process_group.h"
#include "mesh/placement.h"
#include "schema/argument.h"

namespace shardlab {

/// An object of the program, whatever its type: a mesh is a `const MeshLayout*`, a group a
/// `ProcessGroup*`, a function its pointer. Types below are recognised; others are not.
using HostObject = std::any;

/// True on a rank of a world: only there values can be traced (T-9).
bool trace_available();

/// Counterparts of torch.distributed.group and torch.distributed.GroupMember.
enum class WorldMeta : std::uint8_t { kGroup, kGroupMember };
/// "group", "GroupMember".
std::string_view to_string(WorldMeta meta);

/// The value in place of a group that this rank is not in.
struct EnumConstant {
  std::string name = "NON_GROUP_MEMBER";
  bool operator==(const EnumConstant&) const = default;
};

struct PlacementType;

/// A placement with its type, which may be one that users derived.
struct PlacementObject {
  const PlacementType* type = nullptr;
  Placement value;
  bool operator==(const PlacementObject&) const = default;
};

/// A function that a placement type has for its objects.
struct PlacementMethod {
  std::string_view name;
  std::array<std::string_view, 2> parameters;  ///< their names, in order; empty: fewer
  /// Null if the type has none of that name, though the type that it is derived from has.
  Argument (*run)(PlacementObject& self, const Arguments& args);
};

/// A number or a name that placements of some kinds have, and that can be set in all.
struct PlacementField {
  std::string_view name;    ///< "dim"
  std::string_view owners;  ///< "shards"
  bool (*has)(const Placement& placement);
  Argument (*get)(const Placement& placement);
  void (*set)(PlacementObject& object, const Argument& value);
};
/// Finds a field by its name. Null if there is none.
const PlacementField* find_placement_field(std::string_view name);

/// A class of placements. Types live as long as the process; they are not changed.
struct PlacementType {
  std::string_view name;                ///< "Shard"
  const PlacementType* base = nullptr;  ///< null: Placement itself, or no type of placements
  std::span<const PlacementMethod> methods;
  bool own_lookup = false;  ///< attributes of its objects pass a function of the type

  /// This one or one that it is derived from.
  bool derives_from(const PlacementType& other) const;
  /// The method that objects of this type have; null: none.
  const PlacementMethod* find(std::string_view method) const;
};
const PlacementType& placement_type();
const PlacementType& shard_type();
const PlacementType& strided_shard_type();
const PlacementType& replicate_type();
const PlacementType& partial_type();
/// The class of the placement's kind. Kinds without a class (norm and mask partials) are
/// derived from partials.
const PlacementType& type_of(const Placement& placement);

/// Type exactly WorldMeta (T-15).
bool is_world_meta(const HostObject& object);
/// A type derived from Placement, itself included; an object of one (T-19).
bool is_placement_type(const HostObject& object);
bool is_placement(const HostObject& object);
/// Type exactly a mesh (T-27).
bool is_device_mesh(const HostObject& object);
/// Type exactly ProcessGroup, whatever its backend (T-43, X-61); wrappers are not.
bool is_process_group(const HostObject& object);

/// The object inside a recognised one.
PlacementObject placement_in(const HostObject& object);
ProcessGroup& group_in(const HostObject& object);

}  // namespace shardlab
