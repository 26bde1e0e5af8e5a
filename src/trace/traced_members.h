// traced_members.h - the members of traced values: one table for each kind. A row gives whether it
// is an attribute or a method, the names of its arguments, whether its answer may differ between
// ranks (T-41), and the answer. Private to src/trace.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "trace/traced_value.h"

namespace shardlab {

enum class MemberUse : std::uint8_t {
  kAttribute,
  kMethod,
  kMethodValue,  ///< a method that may be taken without a call (T-46)
};
/// Whether two ranks may get different answers.
enum class Answers : std::uint8_t { kAlike, kByRank };

struct TracedMember {
  std::string_view name;
  MemberUse use = MemberUse::kMethod;
  Answers answers = Answers::kAlike;
  /// The member of a constant.
  TracedValue (*run)(Tracing& tracing, const TracedValue& self, const Arguments& args) = nullptr;
  std::array<std::string_view, 2> parameters = {};  ///< none: arguments are ignored
  /// In place of `run`: of values as they are.
  TracedValue (*run_on_values)(Tracing& tracing, const TracedValue& self,
                               const TracedCall& call) = nullptr;
};

/// Rows of one kind, by name.
std::span<const TracedMember> members_of(TracedKind kind);
/// Those of meshes.
std::span<const TracedMember> traced_mesh_members();
/// Null if it is not listed.
const TracedMember* find_member(TracedKind kind, std::string_view name);

/// The object of a value, for the tables.
struct TracedObject {
  static const DTensor& tensor(const TracedValue& value);
  static const Argument& constant(const TracedValue& value);
  static const PlacementType& type(const TracedValue& value);
  static const std::shared_ptr<PlacementObject>& placement(const TracedValue& value);
  static const MeshLayout* mesh(const TracedValue& value);
  static ProcessGroup& group(const TracedValue& value);
  static const BackwardHook& hook(const TracedValue& value);
};

/// The source of an attribute of an object that has a source.
std::optional<Source> source_of(const TracedValue& self, std::string_view attribute);
/// Names of the dims of a mesh; None if the program gave none.
Argument given_names(const MeshLayout& layout);

/// Arguments by name as constants; names that the parameters lack, and more of them, fail with
/// Value. Arguments left out at the end are absent, those left out before are None.
Arguments bound_constants(std::string_view member, std::array<std::string_view, 2> parameters,
                          const TracedCall& call);
/// Runs a method of a placement's type on it, or gives None where the type has only the trivial
/// initialiser (T-23).
///   fails  Internal: the type has no such method. Graph break: arguments that are not constants
TracedValue call_placement_method(Tracing& tracing, const TracedValue& self,
                                  std::string_view method, const TracedCall& call);
/// Attributes of a placement whose type has a function for them are not known (T-23).
void check_lookup(Tracing& tracing, const PlacementObject& placement);

}  // namespace shardlab
