// convert.h - moving elements between dtypes. Floats round to nearest even, complex to real drops
// the imaginary part, anything to bool is "not zero", floats to integers truncate.
#pragma once

#include <cstdint>

#include "tensor/device.h"

namespace shardlab {

/// A run of elements: first one, element stride, dtype.
struct ElementRun {
  const void* data;
  std::int64_t stride;
  DType dtype;
};
struct MutableElementRun {
  void* data;
  std::int64_t stride;
  DType dtype;
};

/// to[i] = from[i] for i in [0, count). Fails with Unsupported for dtypes that are names only.
void convert_run(const MutableElementRun& to, const ElementRun& from, std::int64_t count);

/// `number` as one element of `dtype` at `to`.
void store_scalar(void* to, DType dtype, const Scalar& number);

/// out[...] = source[...], broadcast to the output's shape.
void convert_tensor(const Tensor& out, const Tensor& source);
/// The tensor's elements in row-major order as `dtype`, and back.
void load_row_major(void* to, DType dtype, const Tensor& source);
void store_row_major(const Tensor& out, const void* from, DType dtype);
/// Every element of `out` = number.
void fill_tensor(const Tensor& out, const Scalar& number);

}  // namespace shardlab
