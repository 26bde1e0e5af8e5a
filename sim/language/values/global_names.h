// global_names.h - names that every program knows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/language/values/value.h"

namespace shardlab {

class OpRegistry;

/// The paths of the classes `DTensor` and `torch.Tensor`, for isinstance().
inline constexpr std::string_view kDTensorType = "torch.distributed.tensor.DTensor";
/// The class `DeviceMesh`; its constructor is a function of its table, `kMakeMesh`.
inline constexpr std::string_view kDeviceMeshType = "torch.distributed.device_mesh.DeviceMesh";
inline constexpr std::string_view kMakeMesh = "DeviceMesh";
inline constexpr std::string_view kTensorType = "torch.Tensor";

/// A dtype by its own name: "f32".
std::optional<DType> find_dtype(std::string_view name);

/// The value of a bare name that the program does not define: R, dtypes, reductions, modules,
/// functions, ops.
std::optional<Value> find_global(std::string_view name, const OpRegistry& registry);

/// The value of `module.name`: torch.cat, F.gelu, torch.nn.functional, aten.add.Tensor,
/// torch.ops.my.op.
std::optional<Value> find_in_module(const std::string& module, const std::string& name,
                                    const OpRegistry& registry);
/// Everything find_in_module knows of a module, for suggestions.
std::vector<std::string> names_in_module(std::string_view module, const OpRegistry& registry);
/// Whether a module is a class of torch's that holds no ops: torch.distributed.group.
bool has_members_only(std::string_view module);
/// The op whose overloads a module holds: "my::op" for torch.ops.my.op, "aten::add" for aten.add;
/// empty for other modules.
std::string op_of_module(std::string_view module);

/// Everything find_global knows, for suggestions.
std::vector<std::string> global_names(const OpRegistry& registry);

}  // namespace shardlab
