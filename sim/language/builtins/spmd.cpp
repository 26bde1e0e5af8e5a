// spmd_types, imported as spmd: types are texts, moves are collectives of the program with the
// gradient that their types tell, and assertions are claims, which the judge reads.
#include <algorithm>

#include "autograd/program.h"
#include "base/fix.h"
#include "base/tensor_dim.h"
#include "base/text_of_list.h"
#include "mesh/type_string.h"
#include "sim/language/builtins/spmd_moves.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/run/mesh_value.h"
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
      function == "assert_type" ? typed->claim(*x, type) : typed->has(*x, type);
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

// The other mesh dims keep what they have: the judge finds out.
Value run_mutate_type(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("mutate_type", {"tensor", "axis=", "src", "dst"}, std::move(call));
  Value types = given["dst"];
  if (given.has("axis")) {
    const DictValue one = make_dict();
    one.entries->emplace_back(given["axis"], given["dst"]);
    types = one;
  }
  claim_all(in, given["tensor"], {types}, "mutate_type", in.position(), Gradient::kLeft);
  return given["tensor"];
}

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
    const UncheckedScope unchecked;
    Value result = in.call(function_, std::move(call));
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

// `with` of no_typecheck() takes calls out of the check by types; of typecheck() it changes
// nothing: the run is asked for the check as a whole.
class TypeChecking final : public ContextManager {
 public:
  explicit TypeChecking(bool off) : off_(off) {}
  std::string_view kind() const override { return "type checking"; }
  Value enter(Interpreter&, const Value&) override {
    if (off_) unchecked_.emplace();
    return {};
  }
  void leave() override { unchecked_.reset(); }

 private:
  bool off_;
  std::optional<UncheckedScope> unchecked_;
};

Value run_no_typecheck(Interpreter&, const Value*, CallValues call) {
  const Parameters given("no_typecheck", {"fn=", "in_types=", "out_types="}, std::move(call));
  if (given.has("fn")) return given["fn"];
  if (!given.has("out_types")) return ObjectValue{std::make_shared<TypeChecking>(true)};
  return ObjectValue{std::make_shared<TypedFunction>(Value(), given, "no_typecheck")};
}

Value run_typecheck(Interpreter&, const Value*, CallValues call) {
  const Parameters given("typecheck", {"strict_mode=", "local="}, std::move(call));
  return ObjectValue{std::make_shared<TypeChecking>(false)};
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

/// A function that moves: the types that it takes, S(d) as V, and those that it has unsaid.
struct MoveCall {
  const char* name;
  std::string_view from, to, unsaid_from, unsaid_to;
};
constexpr MoveCall kMoveCalls[] = {
    {"all_reduce", "PV", "RI", "P", ""},
    {"all_gather", "V", "RI", "V", ""},
    {"reduce_scatter", "PV", "V", "P", "V"},
    {"all_to_all", "V", "V", "V", "V"},
    {"convert", "RIVP", "RIVP", "", ""},
    {"reinterpret", "RIVP", "RIVP", "", ""},
    {"redistribute", "RIVP", "RIVP", "", ""},
    {"shard", "RI", "V", "", ""},
    {"invariant_to_replicate", "I", "R", "I", "R"},
};

class MoveRun {
 public:
  MoveRun(Interpreter& in, const MoveCall& call, CallValues values)
      : in_(in),
        call_(call),
        given_(call.name,
               {"x", "axis", "src=", "dst=", "expert_mode=", "split_sizes=", "input_split_sizes=",
                "output_split_sizes=", "op_dtype=", "out_dtype=", "async_op=", "inplace=",
                "backward_options="},
               std::move(values)),
        x_(given_.tensor("x")) {
    move_.name = call.name;
    move_.from = said("src", call.from, call.unsaid_from);
    move_.to = said("dst", call.to, call.unsaid_to);
    find_group();
    move_.lengths =
        given_.sizes_or(given_.has("split_sizes") ? "split_sizes" : "input_split_sizes", {});
    move_.received = given_.sizes_or("output_split_sizes", {});
    move_.carried = dtype_in(given_["op_dtype"]);
    move_.given = dtype_in(given_["out_dtype"]);
    if (const auto* options = given_["backward_options"].get<DictValue>()) {
      for (const auto& [key, value] : *options->entries) {
        if (str(key) == "op_dtype") move_.carries_back = dtype_in(value);
      }
    }
  }

  DTensor run() {
    TypedProgram* const typed = typed_program();
    if (typed == nullptr || !mesh_dim_) return moved();
    const bool expert = given_.flag_or("expert_mode", false);
    const SpmdType to = typed->moved(x_, *mesh_dim_, {call_.name, move_.from, move_.to, expert});
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
    const bool other_dim = name == "convert" && move_.to.is_s() && move_.from != move_.to;
    if (move_.from.is_s() && (sums || other_dim)) {
      refuse(sums ? "pieces are no terms" : "pieces of another dim are with other ranks",
             sums ? "src=spmd.V adds what differs" : "all_to_all moves them");
    }
    // A sum of what differs: the operand is taken for terms.
    if (sums && move_.from.varies()) {
      move_.from = SpmdType::term();
    }
    if (name == "reinterpret") return reinterpreted();
    const bool exchanges = name == "all_to_all" || (name == "redistribute" && move_.from.is_s() &&
                                                    move_.to.is_s() && move_.from != move_.to);
    const bool both = move_.from.varies() && move_.to.varies();
    if (both ? !exchanges : move_.from == move_.to) return x_;
    const MoveKind kind = kind_of_move(move_.from, move_.to);
    const bool sends = move_.from.is_p() || (move_.from.varies() && !move_.to.is_p());
    if (kind == MoveKind::kNone || (name == "convert" && sends)) {
      refuse("there is no such conversion",
             move_.from.is_p() ? "all_reduce(x, axis, dst=spmd.R) adds the terms"
                               : "all_gather(x, axis, src=spmd.S(0), dst=spmd.R) moves data");
    }
    if (kind == MoveKind::kExpert && name != "redistribute") check_expert();
    return moved_as(x_, move_);
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
    refuse_move(x_, move_, what, fix);
  }

  SpmdType said(const char* side, std::string_view takes, std::string_view unsaid) const {
    const bool known = given_.has(side);
    if (!known && unsaid.empty()) given_.refuse(side, "a type", fmt::format("{}=spmd.R", side));
    const SpmdType type =
        type_in(known ? given_[side] : Value(std::string(unsaid)), x_.ndim() + 1, call_.name);
    if (takes.find(to_string(without_dim(type))[0]) != takes.npos) return type;
    std::vector<std::string> all;
    for (const char letter : takes) all.push_back(fmt::format("spmd.{}", letter));
    fail(Fix{fmt::format("it takes {}", text_of_list(all, " or "))}, "{}: {} is {}", call_.name,
         side, to_string(type));
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

  void check_expert() const {
    if (given_.flag_or("expert_mode", false)) return;
    refuse("the meaning of the gradient changes unseen", "say expert_mode=True where it is meant");
  }

  // The bytes stay. An I that is used otherwise on each rank has its gradients summed first.
  DTensor reinterpreted() {
    if (move_.from.is_s() || move_.to.is_s()) {
      refuse("the bytes stay, and a dim says nothing of them", "say spmd.V");
    }
    if (move_.from == move_.to) return x_;
    if (move_.from.is_p() || (move_.from.varies() && !move_.to.is_p())) {
      refuse("what differs between ranks is no replica", "all_reduce or all_gather makes one");
    }
    const bool usual = move_.from.varies() || (move_.from.is_i() && !move_.to.is_r());
    if (!usual) check_expert();
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
  return MoveRun(in, kMoveCalls[kCall], std::move(call)).run();
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
      {"assert_type", run_assert_type},
      {"current_mesh", run_current_mesh},
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
