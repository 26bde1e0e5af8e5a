// value.h - the values that a name of a program can have on one rank. Lists, dicts and tensors are
// references, as in Python. Used by one rank: reference counts of containers are not shared between
// ranks, and values of one rank are never seen by another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "mesh/dtensor.h"
#include "sim/language/syntax/numbers.h"

namespace shardlab {

class Value;
class Object;
struct Builtin;
struct Cell;
struct ModuleHooks;
struct OpRow;

using Values = std::vector<Value>;

/// Containers nest at most this deep, so that walking and dropping them is safe on a rank's small
/// stack. It also keeps every container from holding itself.
inline constexpr int kDeepestContainer = 32;

struct ListItems;
class DictEntries;

/// A list is shared by all names that it has; a tuple never changes.
struct ListValue {
  std::shared_ptr<ListItems> items;
};
struct TupleValue {
  std::shared_ptr<const ListItems> items;
};
/// Keys are compared with equal().
struct DictValue {
  std::shared_ptr<DictEntries> entries;
};
/// range(start, stop, step), never spelled out: a loop over a million costs no memory.
struct RangeValue {
  std::int64_t start = 0, stop = 0, step = 1;
  /// The number of its items; 0 if it is empty.
  std::int64_t size() const;
  std::int64_t operator[](std::int64_t index) const { return start + index * step; }
};
/// The variables of other defs that a def inside of them uses, by name.
using CellMap = std::unordered_map<std::string, std::shared_ptr<Cell>>;
/// A def, with the values of its defaults (one per parameter; None if there is none). Each time the
/// def is reached it makes another function; copies of one share their defaults.
struct FunctionValue {
  std::shared_ptr<const ast::Function> function;
  std::shared_ptr<const Values> defaults;
  std::shared_ptr<const CellMap> captured;  ///< null: none
  std::shared_ptr<ModuleHooks> hooks;       ///< of backward (module_hooks.h)
};
/// A built-in function, or, with `self`, a method of a value.
struct BuiltinValue {
  // Points into a table of the program that lives as long as the process.
  const Builtin* builtin = nullptr;
  std::shared_ptr<const Value> self;
};
/// Ops that share a torch name; `self` is the tensor of a method.
struct OpValue {
  std::string name;  ///< "softmax"
  std::shared_ptr<const Value> self;
};
/// One op by its ATen name: aten.add.Tensor.
struct RowValue {
  // A row of the registry of the run, which outlives its values.
  const OpRow* row = nullptr;
};
/// torch, F, torch.nn, aten, aten.add: a prefix of names.
struct ModuleValue {
  std::string path;
};
/// The part that all meshes have in common that were cut from one. Used by one rank.
struct MeshRoot {
  const MeshLayout* reported = nullptr;       ///< the mesh that was made first
  std::vector<const MeshLayout*> flats = {};  ///< reported, of one dim: those that were flattened
};
/// A mesh or a part of one. In single-device runs tensors are on a mesh of the same names whose
/// sizes are all 1, and programs see the real one.
struct MeshValue {
  const MeshLayout* layout = nullptr;    ///< tensors live on it; null outside of a sliced mesh
  const MeshLayout* reported = nullptr;  ///< the layout for size and coordinate
  std::shared_ptr<MeshRoot> root = nullptr;
};
/// torch.distributed.GroupMember.NON_GROUP_MEMBER, and its value there.
inline constexpr std::int64_t kNonGroupMember = -100;
/// A process group: the ranks along one dim of a mesh that this rank is among, the world, or those
/// that dist.new_group() was given.
struct GroupValue {
  MeshValue mesh;  ///< without a layout: the world
  std::size_t dim = 0;
  /// For a group that new_group() made: its ranks, in its order, on a mesh of one dim. Null:
  /// others.
  std::shared_ptr<const std::vector<std::int64_t>> made = nullptr;
  bool outside = false;  ///< this rank is not among them: equal to NON_GROUP_MEMBER
  bool is_world() const { return mesh.layout == nullptr; }
};
/// An object that only has members, or is a context of `with` (object.h).
struct ObjectValue {
  std::shared_ptr<Object> object;
};
/// a:b:c inside of brackets.
struct SliceValue {
  std::shared_ptr<const Values> parts;  ///< start, stop, step; None where left out
};
/// A value that differs between the ranks of one run (rank_value.h).
struct RankValue {
  // Pure: asked for any rank of the class, at any time, and more than once.
  std::shared_ptr<const std::function<Value(std::int64_t rank)>> at;
  std::shared_ptr<const Value> here;  ///< on the rank that runs
  std::int64_t running = 0;
};

/// One value of a program. Copying it copies references to lists, dicts and tensors, as an
/// assignment in Python does.
class Value {
 public:
  using Variant =
      std::variant<ast::None, ast::Ellipsis, bool, std::int64_t, double, std::string, DType,
                   ReduceOp, Placement, DTensor, ListValue, TupleValue, DictValue, RangeValue,
                   FunctionValue, BuiltinValue, OpValue, RowValue, ModuleValue, MeshValue,
                   GroupValue, ObjectValue, SliceValue, RankValue>;

  /// None.
  Value() = default;
  // Small kinds are taken by value, others by reference: a T is taken as the alternative it fits
  // best, and texts become std::string.
  template <typename T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Value> && std::is_constructible_v<Variant, T&&>)
      Value(T&& value)
      : variant_(std::forward<T>(value)) {}
  /// Without it an int would be as close to bool and double as to std::int64_t.
  Value(int value) : variant_(std::int64_t{value}) {}

  /// Members by type: tests for one of Ts, returns the T (which it must be), or null if it is
  /// something else.
  template <typename... Ts>
  bool is() const {
    return (std::holds_alternative<Ts>(variant_) || ...);
  }
  template <typename T>
  const T& as() const {
    return std::get<T>(variant_);
  }
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&variant_);
  }
  bool is_none() const { return is<ast::None>(); }
  bool is_tensor() const { return is<DTensor>(); }
  /// bool, int or float.
  bool is_number() const { return is<bool>() || is<std::int64_t>() || is<double>(); }
  bool is_integer() const { return is<bool>() || is<std::int64_t>(); }
  /// A list or a tuple.
  bool is_sequence() const { return is<ListValue>() || is<TupleValue>(); }

  /// For visitors that treat every kind.
  const Variant& variant() const { return variant_; }

 private:
  Variant variant_;
};

/// `level`: the most containers that were ever around it; raised when it is put into another.
// Containers are made by the functions below, which keep count of levels.
struct ListItems : Values {
  explicit ListItems(Values items, const OpRow* op = nullptr)
      : Values(std::move(items)), fields(op) {}
  mutable int level = 0;
  std::string_view view = {};  ///< "dict_keys", ...: printed as Python's view of that name
  /// The op whose results these are, which its schema may name; it outlives them. Null if none.
  const OpRow* fields = nullptr;
};

/// New containers.
///   fails  Value: nested deeper than kDeepestContainer
Value make_list(Values items);
DictValue make_dict();
Value make_tuple(Values items, const OpRow* fields = nullptr);
Value make_tuple(const Dims& sizes);
Value make_number(Number number);

/// The items of a list or a tuple.
const Values& items_of(const Value& sequence);
/// The number of a bool, int or float; any other value is an Internal error.
Number number_of(const Value& value);

/// The result that its op names so, as x.max(0).values; null if `value` has none of that name.
const Value* field_of(const Value& value, std::string_view name);

/// "int", "tensor", "list": for messages.
std::string_view kind_name(const Value& value);
/// The same for the middle of a sentence: "an int", "a list", "None".
std::string a_kind(const Value& value);
/// NON_GROUP_MEMBER, or a group that the rank is not in.
bool is_outside(const Value& group);
/// The name of a group in programs: the name of its mesh dim, or "world".
const std::string& group_name(const GroupValue& group);
/// The text of print(): strings without quotes.
std::string str(const Value& value);
/// The text inside a list: strings in quotes.
std::string repr(const Value& value);
/// Python's ==, for everything but tensors (those are the same when they are one handle).
bool equal(const Value& a, const Value& b);

}  // namespace shardlab
