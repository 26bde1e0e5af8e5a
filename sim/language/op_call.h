// op_call.h - from a torch-like call to one op with all its arguments: which overload is meant is
// decided by the arguments, as PyTorch does.
#pragma once

#include <optional>
#include <string_view>

#include "schema/op_row.h"
#include "sim/language/builtin.h"

namespace shardlab {

/// Arguments are in schema order with defaults filled in.
struct ResolvedCall {
  const OpRow* row = nullptr;
  Arguments args;
};

/// Finds the overload of `base` ("softmax") that takes these arguments, the first registered one of
/// several. A number stands for a tensor where no overload takes numbers.
///   fails  Unsupported: no such op, naming the nearest. Value: no overload takes the arguments,
///          with the reason of each
ResolvedCall resolve_call(const OpRegistry& registry, std::string_view base,
                          const CallValues& call);
/// The same for one row.
ResolvedCall bind_call(const OpRow& row, const CallValues& call);

/// Names of all ops without namespace and overload ("softmax"), for suggestions; sorted.
std::vector<std::string> op_names(const OpRegistry& registry);
bool is_op(const OpRegistry& registry, std::string_view base);

/// One result is that value, several are a tuple, none is None.
Value value_of(const Results& results);
Value value_of(const Argument& argument);

}  // namespace shardlab
