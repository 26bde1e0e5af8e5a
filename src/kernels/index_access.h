// index_access.h - reading tensors at indices that are data.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/scratch.h"
#include "tensor/strided_copy.h"

namespace shardlab {

[[noreturn]] void refuse_index(std::int64_t index, std::int64_t size);

/// `index` itself. Fails with Value, naming index and range, outside of [0, size).
inline std::int64_t index_in_range(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) refuse_index(index, size);
  return index;
}

/// The same check of all of them.
void check_indices(const std::int64_t* indices, std::int64_t count, std::int64_t size);

/// The local index along one dim that holds global index `global`, or -1 where another rank has it.
/// Fails with Value outside of the global size.
std::int64_t local_index(const LocalView& view, std::size_t dim, std::int64_t global);

/// A tensor without dims as one of one element; others as they are.
Tensor at_least_one_dim(const Tensor& tensor);

/// Elements that are moved as bytes keep their dtype: Value otherwise.
void check_same_dtype(const Tensor& out, const Tensor& source);

/// Calls run(bytes), which is a constant where it is the size of an element: loops that copy as
/// much are then made for it.
template <typename Run>
void with_constant_size(std::int64_t bytes, Run&& run) {
  switch (bytes) {
    case 1:
      return run(std::integral_constant<std::size_t, 1>{});
    case 2:
      return run(std::integral_constant<std::size_t, 2>{});
    case 4:
      return run(std::integral_constant<std::size_t, 4>{});
    case 8:
      return run(std::integral_constant<std::size_t, 8>{});
    case 16:
      return run(std::integral_constant<std::size_t, 16>{});
    default:
      return run(static_cast<std::size_t>(bytes));
  }
}

/// Slice i of `out` along `dim` becomes slice places[i] of `source`, or stays as it is where that
/// is negative. Other dims and dtypes are equal, and places are within the source.
void copy_slices(const Tensor& out, const Tensor& source, std::size_t dim,
                 const std::int64_t* places);

}  // namespace shardlab
