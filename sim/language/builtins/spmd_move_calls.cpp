// Calls of the moves of spmd_types: arguments are read, types checked, a group found.
#include <algorithm>

#include "base/error.h"
#include "base/tensor_dim.h"
#include "base/text.h"
#include "sim/language/builtins/spmd_moves.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/dict_entries.h"
#include "sim/types/typed_program.h"

namespace shardlab {

SpmdType type_in(const Value& value, std::size_t ndim, std::string_view function) {
  const auto* text = value.get<std::string>();
  auto type = text == nullptr ? std::nullopt : parse_spmd_type(*text);
  if (!type) {
    fail(Fix{"write spmd.R, spmd.I, spmd.V, spmd.P or spmd.S(dim)"}, "{}: {} is no type", function,
         repr(value));
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

namespace {

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
      {"unshard", "", "", {}},
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
        given_({call.name, parameters_of(call)}, std::move(values)),
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
    const CheckScope unchecked(Checks::kOff);
    const DTensor result = moved();
    if (type && (in_place_ || !result.is_same(x_) || type->types[*mesh_dim_] != to)) {
      if (result.ndim() != x_.ndim()) {
        shift_cuts(*type, move_.stack_dim, result.ndim() > x_.ndim());
      }
      retype(*type, *mesh_dim_, to);
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
    const DTensor result = name == "reinterpret" ? reinterpreted() : moved_as(x_, move_);
    return in_place_ ? program_calls().one("aten::copy_", {x_, result}) : result;
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
    refuse_move(x_, move_, what, fix);
  }

  SpmdType said(const char* side, std::string_view unsaid) const {
    const bool known = given_.has(side);
    if (!known && unsaid.empty()) given_.refuse(side, "a type", fmt::format("{}=spmd.R", side));
    return type_in(known ? given_[side] : Value(std::string(unsaid)), x_.ndim(), call_.name);
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
    in_place_ = takes("inplace=") && given_.flag_or("inplace", false);
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
  bool in_place_ = false;
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
      {"unshard", run_spmd_move<9>},
  };
  return kTable;
}

}  // namespace shardlab
