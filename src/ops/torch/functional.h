// functional.h - the functions of torch and torch.nn.functional that torch writes in Python.
#pragma once

#include <span>
#include <string_view>

#include "ops/core/rows.h"

namespace shardlab {

/// The beginning of their names as ops: "functional::normalize".
constexpr std::string_view kFunctionSpace = "functional::";

/// One of them: the schema is torch's signature.
struct FunctionRow {
  RowText schema;
  PartsFn parts;
  const char* why;
  std::uint32_t flags = 0;  ///< OpFlag
};

/// All of them. If a flag requests a result (return_indices=True), the op has as many results as
/// the call requests.
std::span<const FunctionRow> functions_of_torch();

// Rows of a theme, each sorted by name.
std::span<const FunctionRow> attention_functions();  ///< functional_attention.cpp
std::span<const FunctionRow> pooling_functions();    ///< functional_pools.cpp
std::span<const FunctionRow> tensor_functions();     ///< functional_tensors.cpp

/// An adaptive pool's sizes, one number or one for each dim; None is the input's own size there.
///   fails  Value: another number of sizes
Dims pooled_sizes_of(const Argument& given, const DTensor& x, std::size_t dims);

}  // namespace shardlab
