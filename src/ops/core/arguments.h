// arguments.h - reading plain arguments in shape inference and sharding rules.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/fixed_text.h"
#include "base/tensor_dim.h"
#include "schema/calls.h"

namespace shardlab {

/// wrap_dim of each.
Dims wrap_dims(std::span<const std::int64_t> dims, std::size_t ndim);

/// Those of an int list, none of which may be named twice.
///   fails  Value: one that is, or that the tensor does not have
Dims distinct_dims(std::string_view function, const Argument& dims, std::size_t ndim);

/// A program that is one call of an op, with all arguments, or with those at these places.
template <FixedText op, std::size_t... places>
Results by_op(Calls& calls, const Arguments& args) {
  return calls(op, sizeof...(places) == 0 ? args : Arguments{args[places]...});
}
/// One result of such a call.
template <FixedText op, std::size_t result, std::size_t... places>
Results result_of(Calls& calls, const Arguments& args) {
  return {by_op<op, places...>(calls, args)[result]};
}

/// An argument that may be None.
std::int64_t int_or(const Argument& argument, std::int64_t fallback);
DType dtype_or(const Argument& argument, DType fallback);
/// An int list; one int counts as a list of one, None as an empty list.
Dims ints_of(const Argument& argument);

/// Reduction of the losses of all elements, as ATen numbers it.
enum class LossReduction : std::uint8_t { kNone = 0, kMean = 1, kSum = 2 };
///   fails  Value: another number
LossReduction loss_reduction(const Argument& argument);

/// The row of a table of embeddings whose gradient is left out, counted from its end where torch's
/// functions are given a negative one; ATen's -1 for None.
///   fails  Value: the table has no such row
std::int64_t padding_row(std::string_view op, const Argument& given, const Argument& table);

/// A tensor argument and its name.
struct NamedArgument {
  std::string_view name;
  const Argument& value;
};
/// The given ones have the dtype of the first.
///   fails  Value
void require_one_dtype(std::string_view op, std::initializer_list<NamedArgument> tensors);

/// A dim as a size_t index.
inline std::size_t index_of(std::int64_t dim) { return static_cast<std::size_t>(dim); }

}  // namespace shardlab
