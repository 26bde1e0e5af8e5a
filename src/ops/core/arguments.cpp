// Defaults and counting from the end, for arguments as programs give them.
#include "ops/core/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace shardlab {

Dims wrap_dims(std::span<const std::int64_t> dims, std::size_t ndim) {
  Dims wrapped;
  for (const std::int64_t dim : dims) wrapped.push_back(wrap_dim(dim, ndim));
  return wrapped;
}

Dims distinct_dims(std::string_view function, const Argument& dims, std::size_t ndim) {
  const Dims wrapped = wrap_dims(ints_of(dims), ndim);
  for (auto dim = wrapped.begin(); dim != wrapped.end(); ++dim) {
    if (std::find(wrapped.begin(), dim, *dim) == dim) continue;
    fail(Fix{"name each dim once"}, "{}: dim {} is named twice", function, *dim);
  }
  return wrapped;
}

std::int64_t int_or(const Argument& argument, std::int64_t fallback) {
  return argument.is_none() ? fallback : argument.to_int();
}

DType dtype_or(const Argument& argument, DType fallback) {
  return argument.is_none() ? fallback : argument.dtype();
}

LossReduction loss_reduction(const Argument& argument) {
  const std::int64_t number = argument.to_int();
  if (number < 0 || number > 2) {
    fail(Fix{"pass 0 (none), 1 (mean) or 2 (sum)"}, "there is no reduction {}", number);
  }
  return static_cast<LossReduction>(number);
}

std::int64_t padding_row(std::string_view op, const Argument& given, const Argument& table) {
  // A table without dims is refused by the op itself.
  if (given.is_none() || !table.is_tensor() || table.tensor().ndim() == 0) return -1;
  const std::int64_t row = given.to_int(), rows = table.tensor().shape()[0];
  if (row < -rows || row >= rows) {
    fail(Fix{fmt::format("use an index from {} to {}", -rows, rows - 1)},
         "{}: padding_idx is {}, the table has {} rows", op, row, rows);
  }
  return row < 0 ? row + rows : row;
}

void require_one_dtype(std::string_view op, std::initializer_list<NamedArgument> tensors) {
  const NamedArgument& first = *tensors.begin();
  const DType dtype = first.value.tensor().dtype();
  for (const auto& [name, value] : tensors) {
    if (!value.is_tensor() || value.tensor().dtype() == dtype) continue;
    fail(Fix{fmt::format("cast one of them: {}.to({}.dtype)", name, first.name)},
         "{}: {} is {}, {} is {}; both must have one dtype", op, name,
         to_string(value.tensor().dtype()), first.name, to_string(dtype));
  }
}

Dims ints_of(const Argument& argument) {
  if (argument.is_none()) return {};
  if (argument.is_scalar()) return {argument.to_int()};
  return argument.ints();
}

}  // namespace shardlab
