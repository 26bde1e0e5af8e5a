// functional.h - the functions of torch.nn.functional that torch writes in Python.
#pragma once

#include <span>
#include <string_view>

#include "schema/op_row.h"

namespace shardlab {

/// What their names begin with as ops: "functional::normalize".
constexpr std::string_view kFunctionSpace = "functional::";

/// One of them: the schema is torch's signature.
struct FunctionRow {
  const char* schema;
  PartsFn parts;
  const char* why;
};

/// Sorted by name.
std::span<const FunctionRow> functions_of_torch();

}  // namespace shardlab
