// builtin.h - functions of the language that are not ops: their arguments, and the look-up of their
// names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/language/values/value.h"

namespace shardlab {

class Interpreter;
class OpRegistry;

/// Arguments as the program gave them, evaluated from left to right; keywords in their order.
struct CallValues {
  Values positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// The use of a member without a call: x.size is a method to be called, x.shape a value.
/// `mesh.shape` and `mesh.coordinate` may also be called.
enum class Member : std::uint8_t { kMethod, kValue, kEither };

class Parameters;

/// A function's parameters, "f(t, dim=)": those that end in "=" may be left out, and with "**" at
/// the end other keywords are kept. Views of the text, which outlives it.
struct Signature {
  Signature(std::string_view text);
  Signature(const char* text) : Signature(std::string_view(text)) {}
  Signature(std::string_view name, std::vector<std::string_view> names, bool keeps = false)
      : function(name), parameters(std::move(names)), keeps_others(keeps) {}

  std::string_view function;
  std::vector<std::string_view> parameters;
  bool keeps_others = false;
};

/// One built-in function, or member (then `self` is its object and not among the arguments). Runs
/// on the rank whose interpreter it is given; its errors get the place of the call.
struct Builtin {
  /// Reads its arguments by itself.
  using OnValues = Value (*)(Interpreter& interpreter, const Value* self, CallValues call);
  using OnParameters = Value (*)(Interpreter& interpreter, const Value* self,
                                 const Parameters& given);

  /// `settles`: for functions, true when it settles by itself those arguments that vary between
  /// ranks.
  Builtin(std::string own_name, OnValues run, Member used = Member::kMethod,
          bool settles_arguments = false)
      : name(std::move(own_name)), member(used), settles(settles_arguments), on_values_(run) {}
  /// `signature`: without a name where errors have that of the program. "a list: (item)": a method
  /// of lists alone.
  Builtin(std::string own_name, std::string_view signature, OnParameters run,
          Member used = Member::kMethod);

  Value run(Interpreter& interpreter, const Value* self, CallValues call) const;
  bool runs(OnValues run) const { return on_values_ == run; }

  std::string name;
  Member member;
  bool settles = false;

 private:
  OnValues on_values_ = nullptr;
  OnParameters on_parameters_ = nullptr;
  std::string_view owner_;  ///< "a list", "a dict", "a set" or "a string"; empty: any value
  Signature signature_ = {"", {}};
};

/// A theme's functions; the names are those of the program. Tables are constant and shared by all
/// ranks.
using BuiltinTable = std::span<const Builtin>;

BuiltinTable python_builtins();         ///< range, len, print, ...
BuiltinTable inquiry_builtins();        ///< getattr, type, torch.finfo, ...
BuiltinTable functools_builtins();      ///< functools.partial, ...
BuiltinTable checkpoint_builtins();     ///< torch.utils.checkpoint.checkpoint
BuiltinTable distributed_builtins();    ///< distribute, from_local, redistribute, ...
BuiltinTable autograd_builtins();       ///< torch.autograd.backward, torch.autograd.grad
BuiltinTable placement_builtins();      ///< Shard, Replicate, Partial, ..., S, P, SS
BuiltinTable group_builtins();          ///< get_process_group_ranks, get_rank, ...
BuiltinTable collective_builtins();     ///< all_reduce, all_gather, ...: give new tensors
BuiltinTable funcol_builtins();         ///< the same as torch's functional collectives
BuiltinTable dist_nn_builtins();        ///< torch.distributed.nn.functional: with gradients
BuiltinTable dist_builtins();           ///< dist.all_reduce, ...: fill tensors, or lists of objects
BuiltinTable dist_group_builtins();     ///< dist.new_group, ...
BuiltinTable dtensor_builtins();        ///< DTensor.from_local
BuiltinTable spmd_builtins();           ///< spmd_types: spmd.assert_type, ...
BuiltinTable spmd_move_builtins();      ///< spmd.all_reduce, ...: its moves, with gradients
BuiltinTable mesh_axis_builtins();      ///< spmd.MeshAxis.of
BuiltinTable spmd_rule_builtins();      ///< spmd.rules.einsum
BuiltinTable norm_builtins();           ///< torch.nn.utils.clip_grad_norm_, ...
BuiltinTable mesh_builtins();           ///< init_device_mesh
BuiltinTable device_mesh_builtins();    ///< DeviceMesh.from_group, ...; DeviceMesh() itself, too
BuiltinTable math_builtins();           ///< math.sqrt, ...
BuiltinTable cuda_builtins();           ///< torch.cuda.is_available, ...: there is no GPU
BuiltinTable assert_builtins();         ///< assert_close
BuiltinTable context_builtins();        ///< no_grad, CommDebugMode, ...: contexts for `with`
BuiltinTable trace_builtins();          ///< trace
BuiltinTable parallel_builtins();       ///< column_wise, row_wise, shard, ...
BuiltinTable factory_builtins();        ///< randn, ones, arange, ...
BuiltinTable tensor_methods();          ///< x.size(), x.item(), x.detach(), ...
BuiltinTable container_methods();       ///< list, dict and string methods
BuiltinTable text_builtins();           ///< ord, chr, hex, ...
BuiltinTable text_methods();            ///< those of the methods above that are about characters
BuiltinTable mesh_methods();            ///< mesh.size(), mesh.get_group(), mesh.ndim, ...
BuiltinTable placement_methods();       ///< p.dim, p.is_shard(), ...
BuiltinTable group_methods();           ///< g.rank(), g.size(), g.group_name
BuiltinTable function_methods();        ///< f.register_full_backward_hook(), ... of a def
BuiltinTable debug_mode_methods();      ///< comm.get_total_counts(), ...
BuiltinTable handle_methods();          ///< h.remove() of a hook
BuiltinTable work_methods();            ///< w.wait() of an asynchronous collective
BuiltinTable generator_methods();       ///< g.manual_seed(), g.initial_seed()
BuiltinTable function_class_methods();  ///< F.apply of a class F(torch.autograd.Function)
BuiltinTable function_context_methods();  ///< ctx.save_for_backward(), ctx.saved_tensors, ...
BuiltinTable traced_methods();            ///< step.graphs, step.guards, step.breaks

/// All tables of functions that are called by their bare names, and all tables of members.
std::span<const BuiltinTable> function_tables();
std::span<const BuiltinTable> member_tables();
/// The members of a value of this kind; those of containers if it has none of its own.
BuiltinTable members_of(const Value& object);

/// Null when there is none, else valid as long as the process.
const Builtin* find_builtin(BuiltinTable table, std::string_view name);
/// Any function that is called by its bare name.
const Builtin* find_function(std::string_view name);

/// Arguments by name: positional ones are named in the order of the signature.
class Parameters {
 public:
  /// `otherwise`: the name of the function for errors where the signature has none.
  ///   fails  Value: too many, unknown (unless kept), doubled or missing arguments
  Parameters(const Signature& signature, CallValues call, std::string_view otherwise = {});

  std::string_view function() const { return function_; }
  /// Given, maybe as None.
  bool given(std::string_view name) const;
  /// Given, and not None.
  bool has(std::string_view name) const;
  /// None when it was left out.
  const Value& operator[](std::string_view name) const;
  /// Keywords that are not a parameter, where the signature keeps them, in the order given.
  const std::vector<std::pair<std::string, Value>>& others() const { return others_; }

  // Each fails with Value, naming function and argument, when the value is of another kind. Those
  // with `_or` return `otherwise` if the argument was left out or is None.
  DTensor tensor(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer_or(std::string_view name, std::int64_t otherwise) const;
  double number(std::string_view name) const;
  bool flag_or(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name) const;
  std::string text_or(std::string_view name, std::string otherwise) const;
  std::optional<DType> dtype(std::string_view name) const;
  /// A list or tuple of integers, or one integer.
  Dims sizes(std::string_view name) const;
  Dims sizes_or(std::string_view name, Dims otherwise) const;

  /// Fails with Value: "f: argument 'name' is a list, [1, 2], not `wanted`"; the fix is to write
  /// it as `example`.
  [[noreturn]] void refuse(std::string_view name, std::string_view wanted,
                           std::string_view example) const;

 private:
  std::string function_;
  std::vector<std::pair<std::string_view, Value>> given_;
  std::vector<std::pair<std::string, Value>> others_;
};

/// Fails with Value: the object has no attribute or method of that name; the fix names one.
[[noreturn]] void refuse_attribute(const Value& object, std::string_view name,
                                   const OpRegistry& registry);

/// A list or tuple of integers, or one integer.
std::optional<Dims> dims_of(const Value& value);

}  // namespace shardlab
