// Where a bare name or a module's attribute leads: placements, modules and dtypes first, then
// built-in functions, then ops by their ATen or torch names, then reductions.
#include "sim/language/global_names.h"

#include <algorithm>
#include <array>

#include "ops/torch_names.h"
#include "sim/language/builtin.h"

namespace shardlab {

namespace {

struct DTypeRow {
  std::string_view name;
  DType dtype;
};
constexpr DTypeRow kTorchDTypes[] = {
    {"float32", DType::kF32},     {"float", DType::kF32},
    {"float64", DType::kF64},     {"double", DType::kF64},
    {"float16", DType::kF16},     {"half", DType::kF16},
    {"bfloat16", DType::kBF16},   {"int64", DType::kI64},
    {"long", DType::kI64},        {"int32", DType::kI32},
    {"int", DType::kI32},         {"int16", DType::kI16},
    {"short", DType::kI16},       {"int8", DType::kI8},
    {"uint8", DType::kU8},        {"uint64", DType::kU64},
    {"bool", DType::kBool},       {"complex64", DType::kC64},
    {"complex128", DType::kC128}, {"cfloat", DType::kC64},
    {"cdouble", DType::kC128},    {"float8_e4m3fn", DType::kF8E4M3FN},
};

constexpr std::array<std::string_view, 7> kModules = {
    "torch", "F", "torch.nn", "aten", "torch.nn.functional", "torch.distributed", "torch.linalg"};

bool is_module(std::string_view path) {
  return std::find(kModules.begin(), kModules.end(), path) != kModules.end();
}

}  // namespace

std::optional<DType> find_dtype(std::string_view name) {
  if (name == "bool") return std::nullopt;  // Python's function; where a dtype is wanted it is one
  return parse_dtype(name);
}

std::optional<DType> find_torch_dtype(std::string_view name) {
  for (const DTypeRow& row : kTorchDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<Value> find_global(std::string_view name, const OpRegistry& registry) {
  if (name == "R") return Placement::replicate();
  if (name == "torch" || name == "F" || name == "aten") return ModuleValue{std::string(name)};
  if (const auto dtype = find_dtype(name)) return *dtype;
  if (const Builtin* builtin = find_function(name)) return BuiltinValue{builtin, nullptr};
  if (is_torch_name(registry, name)) return OpValue{std::string(name), nullptr};
  if (const auto reduction = parse_reduce_op(name)) return *reduction;
  return std::nullopt;
}

std::optional<Value> find_in_module(const std::string& module, const std::string& name,
                                    const OpRegistry& registry) {
  const std::string path = module + "." + name;
  if (is_module(path)) return ModuleValue{path};
  if (module == "aten") {
    if (!registry.overloads(name).empty()) return ModuleValue{path};
    return std::nullopt;
  }
  if (module.starts_with("aten.")) {
    const OpRow* row = registry.find(path);
    return row != nullptr ? std::optional<Value>(RowValue{row}) : std::nullopt;
  }
  if (module == "torch") {
    if (const auto dtype = find_torch_dtype(name)) return *dtype;
    if (name == "contiguous_format" || name == "preserve_format") return name;
  }
  if (module == "torch.linalg") {
    const std::string op = "linalg_" + name;
    return is_torch_name(registry, op) ? std::optional<Value>(OpValue{op, nullptr}) : std::nullopt;
  }
  if (module == "torch.nn" || find_dtype(name)) return std::nullopt;
  return find_global(name, registry);
}

std::vector<std::string> global_names(const OpRegistry& registry) {
  std::vector<std::string> names = {"R", "torch", "F", "aten", "mesh", "rank", "world_size"};
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(to_string(static_cast<DType>(i)));
  for (const BuiltinTable table : {python_builtins(), distributed_builtins(), parallel_builtins(),
                                   collective_builtins(), factory_builtins()}) {
    for (const Builtin& builtin : table) names.push_back(builtin.name);
  }
  for (std::string& name : torch_names(registry)) names.push_back(std::move(name));
  return names;
}

}  // namespace shardlab
