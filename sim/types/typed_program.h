// typed_program.h - a program whose plain tensors have types: each of its calls is checked before
// it computes. A wrapper of the rank's calls (autograd/program.h).
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>

#include "autograd/program.h"
#include "sim/types/rules.h"

namespace shardlab {

struct TypesOfCall;

enum class Checks : std::uint8_t { kAsBefore, kLocal, kOff, kSubscript };

/// Tensors get types by has() and by the calls that make them; tensors without a type, and
/// distributed ones, are not checked until they meet those that have one. For one rank.
class TypedProgram final : public ForwardingProgram {
 public:
  /// `layout` is that of the types of all tensors. Without a mode nothing is checked, and tensors
  /// have the types alone that the program says.
  TypedProgram(ProgramCalls& next, std::optional<TypeMode> mode, const MeshLayout* layout)
      : ForwardingProgram(next),
        how_{mode.value_or(TypeMode::kLocal), mode.has_value(), false},
        checks_calls_(mode.has_value()),
        layout_(layout) {}

  ///   fails  Value: types that do not fit; the message names operands, types, rule and what helps
  Results perform(const ProgramEvent& event) override;

  /// The program says it of the tensor, but for the mesh dims `unsaid`, as bits, along which it
  /// stays as it is. Fails with Value if its type is known to be another.
  void claim(const DTensor& x, const TensorType& type, std::uint32_t unsaid = 0);
  /// The same, and whatever it was before does not matter.
  void has(const DTensor& x, const TensorType& type, std::uint32_t unsaid = 0);
  /// The mesh dims, as bits, along which nothing has said what it is: V in its type.
  std::uint32_t unsaid_of(const DTensor& x) const;
  /// Whether its type is known along this very view.
  bool knows(const DTensor& x) const;
  /// Every rank has made the same: R along all mesh dims, where calls are checked.
  void is_everywhere(const DTensor& x);
  /// From here on types are those along another view of the ranks, of known tensors, too; the view
  /// before is returned.
  const MeshLayout* look_along(const MeshLayout* layout) { return std::exchange(layout_, layout); }
  /// Whether calls are checked here.
  bool checks() const { return how_.checked; }
  /// Null if nothing is known. Fails with Value where the view that it is known along has dims that
  /// make none of this one.
  const TensorType* type_of(const DTensor& x) const;
  /// Fails with Value where the move does not fit; gives the result's type along `mesh_dim`.
  SpmdType moved(const DTensor& x, std::size_t mesh_dim, const TypedMove& move) const;

 private:
  friend class CheckScope;
  struct How {
    TypeMode mode;
    bool checked, subscript;
  };
  struct Known {
    DTensorWatch watch;
    TensorType type;
    const MeshLayout* layout;
    std::uint32_t unsaid;
  };

  Results checked(const OpEvent& event);
  Results checked(const CollectiveEvent& event);
  Results checked(const CollectIntoEvent& event);
  /// Gradients of leaves get their types.
  Results checked(const BackwardEvent& event);
  std::vector<TypeAnswer> answers_of(const OpEvent& event, const TypesOfCall& call,
                                     std::size_t mesh_dim, bool number) const;
  /// Runs the call and gives its results their types.
  Results with_types(const OpEvent& event, const TypesOfCall& call);
  /// Gives the type of `into`, which is undefined where a new tensor is made.
  TensorType collected(CollectiveKind kind, std::size_t mesh_dim, const DTensor& from,
                       const DTensor& into) const;
  /// Fails with Value if the group's ranks are not those along one mesh dim.
  std::size_t mesh_dim_of(CollectiveKind kind, const ProcessGroup& group) const;
  /// Results of typed tensors have no type then, until the program says one.
  Results unchecked(const ProgramEvent& event);
  void forget_dead();

  /// Returns what was before.
  How check(Checks checks);

  How how_;
  const bool checks_calls_;  ///< in some part of the program
  const MeshLayout* layout_;
  mutable std::unordered_map<const DTensorImpl*, Known> known_;  // brought to a view when asked
  std::size_t swept_ = 64;  ///< number of entries at which dead ones are looked for
};

/// The running rank's, or null if its program has no types.
TypedProgram* typed_program();

/// While one lives, the running rank's calls are checked in local mode, or give no types and are
/// not checked: parts of a move, no_typecheck; or they are parts of a subscript, which is an op of
/// its own for the rules.
class CheckScope {
 public:
  explicit CheckScope(Checks checks) : typed_(typed_program()) {
    if (typed_ != nullptr) before_ = typed_->check(checks);
  }
  ~CheckScope() {
    if (typed_ != nullptr) typed_->how_ = before_;
  }
  CheckScope& operator=(CheckScope&&) = delete;

 private:
  TypedProgram* typed_;
  TypedProgram::How before_{};
};

}  // namespace shardlab
