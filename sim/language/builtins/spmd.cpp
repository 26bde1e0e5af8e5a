// spmd_types, imported as spmd: types are texts, moves are collectives of the program with the
// gradient that their types tell, and assertions are claims, which the judge reads.
#include <algorithm>
#include <map>

#include "autograd/program.h"
#include "base/fix.h"
#include "base/tensor_dim.h"
#include "base/text_of_list.h"
#include "mesh/type_string.h"
#include "sim/language/builtins/spmd_moves.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/dict_entries.h"
#include "sim/language/values/object.h"
#include "sim/types/claim.h"
#include "sim/types/typed_program.h"

namespace shardlab {

namespace {

constexpr const char* kTypesOfSpmd = "spmd.R, spmd.I, spmd.V, spmd.P or spmd.S(dim)";

SpmdType type_in(const Value& value, std::size_t ndim, std::string_view function) {
  const auto* text = value.get<std::string>();
  auto type = text == nullptr ? std::nullopt : parse_spmd_type(*text);
  if (!type) {
    fail(Fix{fmt::format("write {}", kTypesOfSpmd)}, "{}: {} is no type", function, repr(value));
  }
  if (type->is_s()) *type = SpmdType::piece(wrap_dim(type->placement->dim, ndim));
  return *type;
}

std::size_t mesh_dim_of(const MeshLayout& mesh, const Value& axis, std::string_view function) {
  const auto* group = axis.get<GroupValue>();
  const bool along = group != nullptr && !group->is_world() && group->made == nullptr;
  const std::string name = along ? group_name(*group) : str(axis);
  if (const auto dim = mesh.find_dim(name)) return *dim;
  fail(Fix{fmt::format("name one of its dims: {}", text_of_list(mesh.names(), ", "))},
       "{}: {} is no dim of mesh {}", function, name, mesh.text());
}

// PartitionSpec(("dp", "cp"), None) names the mesh dims that cut each tensor dim, first cut first.
TensorType cut_by_spec(const TensorType& type, const Value& spec, const MeshLayout& mesh,
                       std::string_view function) {
  std::vector<std::vector<std::size_t>> cuts;
  for (const Value& entry : items_of(spec)) {
    cuts.emplace_back();
    if (entry.is_none()) continue;
    const Values axes = entry.is_sequence() ? items_of(entry) : Values{entry};
    for (const Value& axis : axes) cuts.back().push_back(mesh_dim_of(mesh, axis, function));
  }
  return cut_by(type, cuts);
}

// A dict by mesh dim, one type for all, a PartitionSpec, or a tuple of a dict and one.
TensorType types_in(const Values& given, const MeshLayout& mesh, std::size_t ndim,
                    std::string_view function) {
  SpmdTypes types(mesh.ndim(), SpmdType::varying());
  std::vector<const Value*> specs;
  for (const Value& one : given) {
    if (const auto* dict = one.get<DictValue>()) {
      for (const auto& [axis, type] : *dict->entries) {
        types[mesh_dim_of(mesh, axis, function)] = type_in(type, ndim, function);
      }
    } else if (one.is<TupleValue>()) {
      specs.push_back(&one);
    } else if (!one.is_none()) {
      for (SpmdType& type : types) type = type_in(one, ndim, function);
    }
  }
  TensorType type = tensor_type(types);
  for (const Value* spec : specs) type = cut_by_spec(type, *spec, mesh, function);
  return type;
}

enum class Gradient : std::uint8_t { kLeft, kClaimed };

// A claim for each tensor of a value; `types` likewise where the value is a tuple or a list.
void claim_all(Interpreter& in, const Value& value, const Values& types, std::string_view function,
               SourceSpan at, Gradient gradient) {
  if (const auto* x = value.get<DTensor>()) {
    const MeshLayout* mesh = in.default_mesh();
    const TensorType type = types_in(types, *mesh, x->ndim(), function);
    if (TypedProgram* typed = typed_program()) {
      const bool claims = function == "assert_type" || function == "local_map";
      claims ? typed->claim(*x, type) : typed->has(*x, type);
    }
    in.claim(*x, {.subject = {}, .type = type, .mesh = mesh}, at, function,
             gradient == Gradient::kClaimed);
  } else if (value.is_sequence()) {
    const Values& items = items_of(value);
    const bool each =
        types.size() == 1 && types[0].is_sequence() && items_of(types[0]).size() == items.size();
    for (std::size_t i = 0; i < items.size(); ++i) {
      claim_all(in, items[i], each ? Values{items_of(types[0])[i]} : types, function, at, gradient);
    }
  }
}

Value run_assert_type(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("assert_type", {"tensor", "type=", "spec=", "partition_spec="},
                         std::move(call));
  claim_all(in, given["tensor"], {given["type"], given["spec"], given["partition_spec"]},
            "assert_type", in.position(), Gradient::kClaimed);
  return given["tensor"];
}

// Null if nothing has said it.
const TensorType* type_said(const DTensor& x) {
  const TypedProgram* typed = typed_program();
  return typed == nullptr ? nullptr : typed->type_of(x);
}

// {"dp": "V", "tp": "I"}: S(d) is V here, as in the package.
Value local_type_of(const Interpreter& in, const TensorType* type) {
  const DictValue types = make_dict();
  const MeshLayout& mesh = *in.default_mesh();
  for (std::size_t dim = 0; type != nullptr && dim < mesh.ndim(); ++dim) {
    if (mesh.size(dim) == 1) continue;
    types.entries->set(Value(mesh.names()[dim]), to_string(without_dim(type->types[dim])));
  }
  return types;
}

// (("dp", "cp"), None): the mesh dims that cut each tensor dim; None where no dim is cut.
Value spec_of(const Interpreter& in, const TensorType* type, std::size_t ndim) {
  std::vector<std::map<std::int32_t, Value>> cuts(ndim);
  bool any = false;
  for (std::size_t dim = 0; type != nullptr && dim < type->types.size(); ++dim) {
    if (!type->types[dim].is_s() || in.default_mesh()->size(dim) == 1) continue;
    any = true;
    cuts[static_cast<std::size_t>(type->types[dim].placement->dim)].emplace(
        type->order[dim], in.default_mesh()->names()[dim]);
  }
  if (!any) return {};
  Values entries;
  for (const auto& places : cuts) {
    Values names;
    for (const auto& [place, name] : places) names.push_back(name);
    entries.push_back(names.size() > 1 ? make_tuple(names) : names.empty() ? Value() : names[0]);
  }
  return make_tuple(std::move(entries));
}

Value run_get_local_type(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("get_local_type", {"value"}, std::move(call));
  return local_type_of(in, type_said(given.tensor("value")));
}

Value run_get_partition_spec(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("get_partition_spec", {"tensor"}, std::move(call));
  const DTensor x = given.tensor("tensor");
  return spec_of(in, type_said(x), x.ndim());
}

// The type of another tensor, but for some mesh dims.
Value run_assert_type_like(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("assert_type_like", {"tensor", "source", "overrides="}, std::move(call));
  const DTensor source = given.tensor("source");
  const TensorType* type = type_said(source);
  if (type == nullptr) {
    fail(Fix{"say it by assert_type where it is made"}, "assert_type_like: source has no type");
  }
  claim_all(in, given["tensor"],
            {local_type_of(in, type), given["overrides"], spec_of(in, type, source.ndim())},
            "assert_type", in.position(), Gradient::kClaimed);
  return {};
}

Value run_is_type_checking(Interpreter&, const Value*, CallValues call) {
  const Parameters given("is_type_checking", {}, std::move(call));
  const TypedProgram* typed = typed_program();
  return typed != nullptr && typed->checks();
}

// The other mesh dims keep what they have: the judge finds out.
Value run_mutate_type(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("mutate_type", {"tensor", "axis=", "src", "dst"}, std::move(call));
  Value types = given["dst"];
  if (given.has("axis")) {
    const DictValue one = make_dict();
    one.entries->set(given["axis"], given["dst"]);
    types = one;
  }
  claim_all(in, given["tensor"], {types}, "mutate_type", in.position(), Gradient::kLeft);
  return given["tensor"];
}

enum class Checks : std::uint8_t { kAsBefore, kLocal, kOff };

/// While one lives, calls are checked in another mode, or are not.
class CheckScope {
 public:
  explicit CheckScope(Checks checks) : typed_(typed_program()) {
    if (checks == Checks::kOff) unchecked_.emplace();
    if (typed_ != nullptr && checks == Checks::kLocal) before_ = typed_->check_as(TypeMode::kLocal);
  }
  ~CheckScope() {
    if (before_) typed_->check_as(*before_);
  }
  CheckScope(const CheckScope&) = delete;
  CheckScope& operator=(const CheckScope&) = delete;

 private:
  TypedProgram* typed_;
  std::optional<TypeMode> before_;
  std::optional<UncheckedScope> unchecked_;
};

// A function whose arguments and results have the types that the program says.
class TypedFunction final : public Callable {
 public:
  TypedFunction(Value function, const Parameters& given, std::string name)
      : function_(std::move(function)),
        in_(given["in_types"]),
        out_(given["out_types"]),
        name_(std::move(name)) {}
  std::string_view kind() const override { return "typed function"; }

  Value call(Interpreter& in, CallValues call) override {
    const SourceSpan at = in.position();
    if (function_.is_none()) {
      const Parameters decorated(name_, {"function"}, std::move(call));
      auto typed = std::make_shared<TypedFunction>(*this);
      typed->function_ = decorated["function"];
      return ObjectValue{std::move(typed)};
    }
    if (!in_.is_none()) {
      claim_all(in, make_tuple(call.positional), {in_}, name_, at, Gradient::kLeft);
    }
    Value result;
    {
      const CheckScope scope(name_ == "local_map" ? Checks::kLocal : Checks::kOff);
      result = in.call(function_, std::move(call));
    }
    claim_all(in, result, {out_}, name_, at, Gradient::kLeft);
    return result;
  }

 private:
  Value function_, in_, out_;
  std::string name_;
};

Value run_spmd_local_map(Interpreter&, const Value*, CallValues call) {
  const Parameters given("local_map", {"in_types=", "out_types"}, std::move(call));
  return ObjectValue{std::make_shared<TypedFunction>(Value(), given, "local_map")};
}

// `with` of no_typecheck() takes calls out of the check by types, of local() and
// typecheck(local=True) makes it that of local mode.
class TypeChecking final : public ContextManager {
 public:
  explicit TypeChecking(Checks checks) : checks_(checks) {}
  std::string_view kind() const override { return "type checking"; }
  Value enter(Interpreter&, const Value&) override {
    scope_.emplace(checks_);
    return {};
  }
  void leave() override { scope_.reset(); }

 private:
  Checks checks_;
  std::optional<CheckScope> scope_;
};

Value run_no_typecheck(Interpreter&, const Value*, CallValues call) {
  const Parameters given("no_typecheck", {"fn=", "in_types=", "out_types="}, std::move(call));
  if (given.has("fn")) return given["fn"];
  if (!given.has("out_types")) return ObjectValue{std::make_shared<TypeChecking>(Checks::kOff)};
  return ObjectValue{std::make_shared<TypedFunction>(Value(), given, "no_typecheck")};
}

Value run_typecheck(Interpreter&, const Value*, CallValues call) {
  const Parameters given("typecheck", {"strict_mode=", "local="}, std::move(call));
  const bool local = given.flag_or("local", false);
  return ObjectValue{std::make_shared<TypeChecking>(local ? Checks::kLocal : Checks::kAsBefore)};
}

Value run_local(Interpreter&, const Value*, CallValues call) {
  const Parameters given("local", {}, std::move(call));
  return ObjectValue{std::make_shared<TypeChecking>(Checks::kLocal)};
}

// `with` enters the mesh itself.
Value run_set_current_mesh(Interpreter&, const Value*, CallValues call) {
  const Parameters given("set_current_mesh", {"axes"}, std::move(call));
  if (!given["axes"].is<MeshValue>()) given.refuse("axes", "a mesh", "set_current_mesh(mesh)");
  return given["axes"];
}

Value run_current_mesh(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("current_mesh", {}, std::move(call));
  Values names;
  for (const std::string& name : in.default_mesh()->names()) names.emplace_back(name);
  return make_tuple(std::move(names));
}

Value run_piece_type(Interpreter&, const Value*, CallValues call) {
  const Parameters given("S", {"dim"}, std::move(call));
  return fmt::format("S({})", given.integer("dim"));
}

Value run_partition_spec(Interpreter&, const Value*, CallValues call) {
  return make_tuple(std::move(call.positional));
}

Value run_type_of_placement(Interpreter&, const Value*, CallValues call) {
  const Parameters given("dtensor_placement_to_spmd_type", {"placement", "grad_placement="},
                         std::move(call));
  const auto* placement = given["placement"].get<Placement>();
  if (placement == nullptr) given.refuse("placement", "a placement", "Shard(0)");
  const auto* gradient = given["grad_placement"].get<Placement>();
  return to_string(dtensor_placement_to_spmd_type(
      *placement, gradient == nullptr ? std::nullopt : std::optional(*gradient)));
}

Value run_placement_of_type(Interpreter&, const Value*, CallValues call) {
  const Parameters given("spmd_type_to_dtensor_placement", {"spmd_type"}, std::move(call));
  constexpr std::size_t kAnyDims = 64;  // no tensor is there that would have fewer
  return spmd_type_to_dtensor_placement(
      type_in(given["spmd_type"], kAnyDims, "spmd_type_to_dtensor_placement"));
}

/// A function that moves: the types that it has unsaid, and its own parameters; sim/types/rules has
/// those that it takes.
struct MoveCall {
  const char* name;
  std::string_view unsaid_from, unsaid_to;
  std::vector<std::string_view> parameters;
};
const MoveCall& move_call(std::size_t index) {
  static const MoveCall kCalls[] = {
      {"all_reduce", "P", "", {"inplace="}},
      {"all_gather", "V", "", {"gather_dim=", "split_sizes="}},
      {"reduce_scatter", "P", "V", {"scatter_dim=", "split_sizes="}},
      {"all_to_all",
       "V",
       "V",
       {"split_dim=", "concat_dim=", "input_split_sizes=", "output_split_sizes="}},
      {"convert", "", "", {"expert_mode=", "split_sizes="}},
      {"reinterpret", "", "", {"expert_mode="}},
      {"redistribute", "", "", {"split_sizes="}},
      {"shard", "", "", {"split_sizes="}},
      {"invariant_to_replicate", "I", "R", {}},
  };
  return kCalls[index];
}

std::vector<std::string_view> parameters_of(const MoveCall& call) {
  std::vector<std::string_view> names = {
      "x", "axis", "src=", "dst=", "op_dtype=", "out_dtype=", "async_op=", "backward_options="};
  names.insert(names.end(), call.parameters.begin(), call.parameters.end());
  return names;
}

class MoveRun {
 public:
  MoveRun(Interpreter& in, const MoveCall& call, CallValues values)
      : in_(in),
        call_(call),
        given_(call.name, parameters_of(call), std::move(values)),
        x_(given_.tensor("x")) {
    move_.name = call.name;
    move_.from = said("src", call.unsaid_from);
    move_.to = said("dst", call.unsaid_to);
    find_group();
    read_options();
  }

  DTensor run() {
    TypedProgram* const typed = typed_program();
    const TypedMove call{call_.name, move_.from, move_.to, given_.flag_or("expert_mode", false)};
    if (typed == nullptr || !typed->checks() || !mesh_dim_) {
      if (const auto refusal = refused_move(call)) refuse(refusal->rule, refusal->help);
      return moved();
    }
    const SpmdType to = typed->moved(x_, *mesh_dim_, call);
    const TensorType* own = typed->type_of(x_);
    std::optional<TensorType> type;
    if (own != nullptr) type = *own;
    const UncheckedScope unchecked;
    const DTensor result = moved();
    if (type && !result.is_same(x_)) {
      type->types[*mesh_dim_] = to;
      type->order[*mesh_dim_] = to.is_s() ? 0 : -1;
      typed->has(result, *type);
    }
    return result;
  }

 private:
  DTensor moved() {
    const std::string_view name = call_.name;
    const bool sums = name == "all_reduce" || name == "reduce_scatter";
    // A sum of what differs: the operand is taken for terms.
    if (sums && move_.from.varies()) move_.from = SpmdType::term();
    const bool exchanges = name == "all_to_all" || (name == "redistribute" && move_.from.is_s() &&
                                                    move_.to.is_s() && move_.from != move_.to);
    const bool both = move_.from.varies() && move_.to.varies();
    if (both ? !exchanges : move_.from == move_.to) return x_;
    return name == "reinterpret" ? reinterpreted() : moved_as(x_, move_);
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
    refuse_move(x_, move_, what, fix);
  }

  SpmdType said(const char* side, std::string_view unsaid) const {
    const bool known = given_.has(side);
    if (!known && unsaid.empty()) given_.refuse(side, "a type", fmt::format("{}=spmd.R", side));
    return type_in(known ? given_[side] : Value(std::string(unsaid)), x_.ndim() + 1, call_.name);
  }

  bool takes(std::string_view parameter) const {
    return std::ranges::find(call_.parameters, parameter) != call_.parameters.end();
  }

  void read_options() {
    if (takes("split_sizes=")) move_.lengths = given_.sizes_or("split_sizes", {});
    if (takes("input_split_sizes=")) {
      move_.lengths = given_.sizes_or("input_split_sizes", {});
      move_.received = given_.sizes_or("output_split_sizes", {});
    }
    if (takes("gather_dim=")) read_dim("gather_dim", move_.from);
    if (takes("scatter_dim=")) read_dim("scatter_dim", move_.to);
    if (takes("split_dim=")) {
      const bool both = move_.from.is_s() && move_.to.is_s();
      read_dim("split_dim", both ? move_.to : move_.from);
      read_dim("concat_dim", both ? move_.from : move_.to);
    }
    if (takes("inplace=") && given_.flag_or("inplace", false)) {
      given_.refuse("inplace", "False", "x = all_reduce(x, ..)");
    }
    move_.carried = dtype_in(given_["op_dtype"]);
    move_.given = dtype_in(given_["out_dtype"]);
    const auto* options = given_["backward_options"].get<DictValue>();
    if (options == nullptr) return;
    for (const auto& [key, value] : *options->entries) {
      if (str(key) == "op_dtype") {
        move_.carries_back = dtype_in(value);
      } else if (str(key) != "async_op") {
        fail(Fix{"backward takes op_dtype and async_op; its result has the operand's dtype"},
             "{}: backward_options has {}", call_.name, repr(key));
      }
    }
  }

  // The dim is that of S(d), or the one on which V is stacked.
  void read_dim(std::string_view parameter, const SpmdType& type) {
    if (!given_.has(parameter)) return;
    const auto ndim = static_cast<std::int64_t>(x_.ndim());
    std::int64_t dim = given_.integer(parameter);
    const bool adds = parameter == "gather_dim" && !type.is_s();
    if (dim < 0) dim += ndim + (adds ? 1 : 0);
    const bool exchange = takes("split_dim=");
    const std::int64_t own = type.is_s() ? type.placement->dim : exchange ? 0 : dim;
    if (dim != own) {
      fail(Fix{fmt::format("leave it out, or name the dim in the type: spmd.S({})", dim)},
           "{}: {} is {}, and the type is {}", call_.name, parameter, dim, to_string(type));
    }
    if (!type.is_s() && !exchange) move_.stack_dim = dim;
  }

  std::optional<DType> dtype_in(const Value& value) const {
    const auto* dtype = value.get<DType>();
    return dtype == nullptr ? std::nullopt : std::optional(program_calls().dtype_of(*dtype));
  }

  // A name is a dim of the current mesh.
  void find_group() {
    GroupValue group;
    const auto& meshes = in_.meshes();
    const auto current = std::ranges::find(meshes, in_.default_mesh(), &MeshValue::layout);
    if (given_["axis"].is<std::string>() && current != meshes.end()) {
      group = {.mesh = *current, .dim = mesh_dim_of(*current->layout, given_["axis"], call_.name)};
    } else {
      group = group_value_of(in_, given_["axis"]);
    }
    if (group.mesh.layout == in_.default_mesh()) mesh_dim_ = group.dim;
    if (!in_.plain()) move_.group = &group_of(in_, group);
    move_.ranks = reported_size(in_, group);
    move_.place = reported_place(in_, group);
  }

  // The bytes stay. An I that is used otherwise on each rank has its gradients summed first.
  DTensor reinterpreted() {
    if (move_.to.is_i()) return moved_as(x_, move_);
    DTensor x = x_;
    if (move_.from.is_i()) {
      SpmdMove summed = move_;
      summed.to = SpmdType::replicated();
      x = moved_as(x, summed);
      if (move_.to.is_r()) return x;
      move_.from = summed.to;
    }
    move_.keeps_bytes = true;
    return moved_as(x, move_);
  }

  Interpreter& in_;
  const MoveCall& call_;
  const Parameters given_;
  const DTensor x_;
  SpmdMove move_;
  std::optional<std::size_t> mesh_dim_;  ///< empty: along no single dim of the types' mesh
};

template <std::size_t kCall>
Value run_spmd_move(Interpreter& in, const Value*, CallValues call) {
  return MoveRun(in, move_call(kCall), std::move(call)).run();
}

}  // namespace

BuiltinTable spmd_move_builtins() {
  static const Builtin kTable[] = {
      {"all_reduce", run_spmd_move<0>},
      {"all_gather", run_spmd_move<1>},
      {"reduce_scatter", run_spmd_move<2>},
      {"all_to_all", run_spmd_move<3>},
      {"convert", run_spmd_move<4>},
      {"reinterpret", run_spmd_move<5>},
      {"redistribute", run_spmd_move<6>},
      {"shard", run_spmd_move<7>},
      {"invariant_to_replicate", run_spmd_move<8>},
  };
  return kTable;
}

BuiltinTable spmd_builtins() {
  static const Builtin kTable[] = {
      {"PartitionSpec", run_partition_spec},
      {"S", run_piece_type},
      {"assert_local_type", run_assert_type},
      {"assert_type", run_assert_type},
      {"assert_type_like", run_assert_type_like},
      {"current_mesh", run_current_mesh},
      {"get_local_type", run_get_local_type},
      {"get_partition_spec", run_get_partition_spec},
      {"is_type_checking", run_is_type_checking},
      {"local", run_local},
      {"local_map", run_spmd_local_map},
      {"mutate_type", run_mutate_type},
      {"no_typecheck", run_no_typecheck},
      {"set_current_mesh", run_set_current_mesh},
      {"dtensor_placement_to_spmd_type", run_type_of_placement},
      {"spmd_type_to_dtensor_placement", run_placement_of_type},
      {"typecheck", run_typecheck},
  };
  return kTable;
}

}  // namespace shardlab
