// index_access.h - reading tensors at indices that come from data.
#pragma once

#include <cstdint>

#include "kernels/scratch.h"
#include "tensor/strided_copy.h"

namespace shardlab {

/// `index` itself. Fails with Value, naming index and range, outside of [0, size).
std::int64_t index_in_range(std::int64_t index, std::int64_t size);

/// The local index along one dim that holds global index `global`, or -1 where another rank has it.
/// Fails with Value outside of the global size.
std::int64_t local_index(const LocalView& view, std::size_t dim, std::int64_t global);

/// A tensor without dims as one of one element; others as they are.
Tensor at_least_one_dim(const Tensor& tensor);

/// Elements that are moved as bytes keep their dtype: Value otherwise.
void check_same_dtype(const Tensor& out, const Tensor& source);

/// Copies slices of `source` along `dim` to slices of `out`; other dims and dtypes are equal.
class SliceCopy {
 public:
  SliceCopy(const Tensor& out, const Tensor& source, std::size_t dim);
  void copy(std::int64_t to, std::int64_t from) const;

 private:
  std::byte* target_;
  const std::byte* source_;
  Dims shape_, target_stride_, source_stride_;
  std::int64_t bytes_, target_step_, source_step_;
};

}  // namespace shardlab
