// torch_names.h - the names by which a program may call an op: those of ATen and torch's own
// spellings of rows.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "schema/torch_spelling.h"

namespace shardlab {

/// The row and the arguments of a call by torch's name ("cross_entropy", "concat", "half") or by
/// the name of an op of ATen ("mm"), whether as a function or as a method with the tensor in front.
///   fails  as resolve_call()
ResolvedCall resolve_torch_call(const OpRegistry& registry, std::string_view name,
                                const GivenArguments& given);

/// Modules of torch whose functions ATen names after them: torch.linalg.inv is linalg_inv.
inline constexpr std::array<std::string_view, 3> kTorchFamilies = {"fft", "linalg", "special"};

/// Whether resolve_torch_call() accepts the name.
bool is_torch_name(const OpRegistry& registry, std::string_view name);

/// The rows that a call by this name may run: those of its spellings, then the overloads of its
/// name in ATen. A module in front is left out ("F.cross_entropy", "torch.linalg.norm"). Empty: not
/// known.
std::vector<const OpRow*> rows_of_torch_name(const OpRegistry& registry, std::string_view name);

/// All names that it accepts, for suggestions; sorted.
std::vector<std::string> torch_names(const OpRegistry& registry);

}  // namespace shardlab
