// The meaning of a bare name or of a module's attribute: placements, modules and dtypes first, then
// built-in functions, then ops by their ATen or torch names, then reductions.
#include "sim/language/values/global_names.h"

#include <algorithm>
#include <limits>
#include <numbers>
#include <set>

#include "base/torch_dtype.h"
#include "ops/torch/torch_names.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/language/values/builtin.h"

namespace shardlab {

namespace {

/// "linalg" of "torch.linalg"; empty for other modules.
std::string_view family_of(std::string_view module) {
  constexpr std::string_view kTorch = "torch.";
  if (!module.starts_with(kTorch)) return {};
  module.remove_prefix(kTorch.size());
  return std::ranges::find(kTorchFamilies, module) != kTorchFamilies.end() ? module
                                                                           : std::string_view();
}

/// Modules whose functions are those of their tables, and nothing else.
struct TableRow {
  std::string_view module;
  BuiltinTable (*table)();
};
constexpr TableRow kTables[] = {
    {"functools", functools_builtins},
    {"math", math_builtins},
    {"spmd_types", spmd_builtins},
    {"spmd_types", spmd_move_builtins},
    {"spmd_types.MeshAxis", mesh_axis_builtins},
    {"spmd_types.checker", spmd_builtins},
    {"spmd_types.rules", spmd_rule_builtins},
    {"torch.cuda", cuda_builtins},
    {"torch.distributed.device_mesh.DeviceMesh", device_mesh_builtins},
    {"torch.distributed.tensor.DTensor", dtensor_builtins},
    {"torch.autograd", autograd_builtins},
    {"torch.nn.utils", norm_builtins},
    {"torch.utils", checkpoint_builtins},  // which is the module's name, too
    {"torch.utils.checkpoint", checkpoint_builtins},
    {"torch.distributed", dist_builtins},
    {"torch.distributed", dist_group_builtins},
    {"torch.distributed", group_builtins},
    {"torch.distributed._functional_collectives", funcol_builtins},
    {"torch.distributed.nn", dist_nn_builtins},
    {"torch.distributed.nn.functional", dist_nn_builtins},
};

template <ReduceOp kOp>
Value reduction() {
  return kOp;
}

/// A type of spmd_types: programs write it as its text.
template <char kLetter>
Value spmd_type() {
  return kLetter == '?' ? std::string("Infer") : std::string(1, kLetter);
}

/// The types of spmd_types, and the members of torch's classes `group`, `GroupMember` and
/// `ReduceOp`: the world's group, the value for a rank that is in no group (T-16, T-17), and
/// reductions.
struct WorldRow {
  std::string_view module, name;
  Value (*value)();
};
constexpr WorldRow kWorldRows[] = {
    {"spmd_types", "I", spmd_type<'I'>},
    {"spmd_types", "Infer", spmd_type<'?'>},
    {"spmd_types", "Invariant", spmd_type<'I'>},
    {"spmd_types", "P", spmd_type<'P'>},
    {"spmd_types", "Partial", spmd_type<'P'>},
    {"spmd_types", "R", spmd_type<'R'>},
    {"spmd_types", "Replicate", spmd_type<'R'>},
    {"spmd_types", "V", spmd_type<'V'>},
    {"spmd_types", "Varying", spmd_type<'V'>},
    {"torch.distributed.GroupMember", "NON_GROUP_MEMBER", [] { return Value(kNonGroupMember); }},
    {"torch.distributed.GroupMember", "WORLD", [] { return Value(GroupValue()); }},
    {"torch.distributed.group", "WORLD", [] { return Value(GroupValue()); }},
    {"torch.distributed.ReduceOp", "SUM", reduction<ReduceOp::kSum>},
    {"torch.distributed.ReduceOp", "AVG", reduction<ReduceOp::kAvg>},
    {"torch.distributed.ReduceOp", "PRODUCT", reduction<ReduceOp::kProduct>},
    {"torch.distributed.ReduceOp", "MIN", reduction<ReduceOp::kMin>},
    {"torch.distributed.ReduceOp", "MAX", reduction<ReduceOp::kMax>},
    {"torch.distributed.ReduceOp", "BAND", reduction<ReduceOp::kBitAnd>},
    {"torch.distributed.ReduceOp", "BOR", reduction<ReduceOp::kBitOr>},
    {"torch.distributed.ReduceOp", "BXOR", reduction<ReduceOp::kBitXor>},
};

/// Numbers of a module.
struct NumberRow {
  std::string_view module, name;
  double value;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr NumberRow kNumbers[] = {
    {"math", "e", std::numbers::e},
    {"math", "inf", kInfinity},
    {"math", "nan", kNaN},
    {"math", "pi", std::numbers::pi},
    {"math", "tau", 2 * std::numbers::pi},
    {"torch", "e", std::numbers::e},
    {"torch", "inf", kInfinity},
    {"torch", "nan", kNaN},
    {"torch", "pi", std::numbers::pi},
};

/// Functions of a module whose name has another meaning in a program.
struct OtherwiseRow {
  std::string_view module, alias, name, op;
};
constexpr OtherwiseRow kOtherwise[] = {
    {"torch", "torch", "dist", "dist"},
    {"torch", "torch", "trace", "trace"},
    {"torch.nn.functional", "F", "unfold", "im2col"},  // a method has windows of one dim
};

bool has_table(std::string_view module) {
  return std::ranges::find(kTables, module, &TableRow::module) != std::end(kTables);
}

bool has_world_rows(std::string_view module) {
  return std::ranges::find(kWorldRows, module, &WorldRow::module) != std::end(kWorldRows);
}

bool is_module(std::string_view path) {
  constexpr std::string_view kOthers[] = {"aten",      "F",
                                          "torch",     "torch.distributed.tensor",
                                          "torch.nn",  "torch.nn.functional",
                                          "torch.ops", "torch.Tensor"};
  return has_table(path) || has_world_rows(path) || !family_of(path).empty() ||
         std::ranges::count(kOthers, path) > 0;
}

/// "aten" for aten and torch.ops.aten; empty for modules that are no namespace of ops.
std::string_view namespace_of(std::string_view module) {
  constexpr std::string_view kOps = "torch.ops.";
  if (module == "aten") return module;
  if (!module.starts_with(kOps)) return {};
  module.remove_prefix(kOps.size());
  return module.find('.') == std::string_view::npos ? module : std::string_view();
}

std::string_view space_of(const OpRow& row) {
  return std::string_view(row.op.base).substr(0, row.op.base.find("::"));
}

/// The namespaces that ops are registered in, sorted.
std::set<std::string, std::less<>> op_namespaces(const OpRegistry& registry) {
  std::set<std::string, std::less<>> names;
  for (const OpRow* row : registry.rows()) names.emplace(space_of(*row));
  return names;
}

}  // namespace

bool has_members_only(std::string_view module) {
  return !has_table(module) && has_world_rows(module);
}

std::string op_of_module(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  if (dot == std::string_view::npos) return "";
  const std::string_view space = namespace_of(module.substr(0, dot));
  return space.empty() ? "" : fmt::format("{}::{}", space, module.substr(dot + 1));
}

std::vector<std::string> names_in_module(std::string_view module, const OpRegistry& registry) {
  std::vector<std::string> names;
  if (const std::string op = op_of_module(module); !op.empty()) {
    for (const OpRow* row : registry.overloads(op)) {
      names.push_back(row->op.overload.empty() ? "default" : row->op.overload);
    }
    return names;
  }
  if (module == "torch.ops") {
    const auto spaces = op_namespaces(registry);
    return {spaces.begin(), spaces.end()};
  }
  for (const WorldRow& row : kWorldRows) {
    if (row.module == module) names.emplace_back(row.name);
  }
  for (const TableRow& row : kTables) {
    if (row.module != module) continue;
    for (const Builtin& builtin : row.table()) names.push_back(builtin.name);
  }
  for (const NumberRow& row : kNumbers) {
    if (row.module == module && !names.empty()) names.emplace_back(row.name);
  }
  if (!names.empty()) return names;
  const std::string_view space = namespace_of(module);
  if (space.empty()) return global_names(registry);
  std::set<std::string_view> ops;
  for (const OpRow* row : registry.rows()) {
    if (space_of(*row) == space) ops.insert(bare_name(row->op));
  }
  return {ops.begin(), ops.end()};
}

std::optional<DType> find_dtype(std::string_view name) {
  if (name == "bool") return std::nullopt;  // Python's function; a dtype as an argument only
  return parse_dtype(name);
}

std::optional<Value> find_global(std::string_view name, const OpRegistry& registry) {
  if (name == "R") return Placement::replicate();
  constexpr std::string_view kOwn[] = {"torch", "F", "aten", "functools", "math"};
  if (std::ranges::count(kOwn, name) > 0) {
    return ModuleValue{std::string(name)};
  }
  if (name == "nn") return ModuleValue{"torch.nn"};
  if (name == "DTensor") return ModuleValue{std::string(kDTensorType)};
  if (name == "DeviceMesh") return ModuleValue{std::string(kDeviceMeshType)};
  if (name == "dist") return ModuleValue{"torch.distributed"};
  if (name == "spmd") return ModuleValue{"spmd_types"};
  if (name == "funcol") return ModuleValue{"torch.distributed._functional_collectives"};
  if (std::ranges::find(kTorchFamilies, name) != kTorchFamilies.end()) {
    return ModuleValue{fmt::format("torch.{}", name)};
  }
  if (const auto dtype = find_dtype(name)) return *dtype;
  if (const Builtin* builtin = find_function(name)) return BuiltinValue{builtin, nullptr};
  if (is_torch_name(registry, name)) return OpValue{std::string(name), nullptr};
  if (const auto reduction = parse_reduce_op(name)) return *reduction;
  return std::nullopt;
}

std::optional<Value> find_in_module(const std::string& module, const std::string& name,
                                    const OpRegistry& registry) {
  const std::string path = module + "." + name;
  for (const WorldRow& row : kWorldRows) {
    if (row.module == module && row.name == name) return row.value();
  }
  if (has_members_only(module)) return std::nullopt;
  if (is_module(path)) return ModuleValue{path};
  for (const NumberRow& row : kNumbers) {
    if (row.module == module && row.name == name) return row.value;
  }
  for (const TableRow& row : kTables) {
    if (row.module != module) continue;
    if (const Builtin* builtin = find_builtin(row.table(), name)) {
      return BuiltinValue{builtin, nullptr};
    }
  }
  if (has_table(module)) return std::nullopt;
  const auto when = [&](bool known) {
    return known ? std::optional<Value>(ModuleValue{path}) : std::nullopt;
  };
  if (module == "torch.ops") return when(op_namespaces(registry).contains(name));
  if (!namespace_of(module).empty()) return when(!registry.overloads(op_of_module(path)).empty());
  if (const std::string op = op_of_module(module); !op.empty()) {
    const OpRow* row = registry.find(op + "." + name);
    return row != nullptr ? std::optional<Value>(RowValue{row}) : std::nullopt;
  }
  if (module == "torch") {
    if (const auto dtype = parse_torch_dtype(name)) return *dtype;
    if (name == "contiguous_format" || name == "preserve_format") return name;
  }
  if (const std::string_view family = family_of(module); !family.empty()) {
    const std::string op = fmt::format("{}_{}", family, name);
    return is_torch_name(registry, op) ? std::optional<Value>(OpValue{op, nullptr}) : std::nullopt;
  }
  for (const OtherwiseRow& row : kOtherwise) {
    if (row.name == name && (module == row.module || module == row.alias)) {
      return OpValue{std::string(row.op), nullptr};
    }
  }
  if (module == "torch.nn" || find_dtype(name)) return std::nullopt;
  return find_global(name, registry);
}

std::vector<std::string> global_names(const OpRegistry& registry) {
  std::vector<std::string> names = {"R",    "torch",  "F",    "aten", "math", "functools", "nn",
                                    "dist", "funcol", "mesh", "rank", "spmd", "world_size"};
  names.insert(names.end(), kTorchFamilies.begin(), kTorchFamilies.end());
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(to_string(static_cast<DType>(i)));
  for (const BuiltinTable table : function_tables()) {
    for (const Builtin& builtin : table) names.push_back(builtin.name);
  }
  for (std::string& name : torch_names(registry)) names.push_back(std::move(name));
  return names;
}

}  // namespace shardlab
