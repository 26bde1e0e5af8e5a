// reduce.h - the sum, product, ... of one array per rank, in host memory.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/reduce_op.h"

namespace shardlab::backends {

/// Rows of `row_elements` elements: in each input they begin `row_stride` elements apart, in the
/// output they follow each other. The output overlaps no input.
struct Reduction {
  DType dtype;
  ReduceOp op;
  std::span<const void* const> inputs;  ///< by group rank, at least one
  void* output;
  std::int64_t rows;
  std::int64_t row_elements;
  std::int64_t row_stride;
};

/// output[i] = ((inputs[0][i] op inputs[1][i]) op ...), in rank order for every element, so that
/// the result does not depend on how the work is cut (K-21). f16, bf16 and f8 accumulate in f32 and
/// round once; avg divides at the end; NaN wins max and min; integers wrap.
/// Runs on the calling thread; ranks may reduce different pieces of one output at the same time.
/// Owns none of the memory.
void reduce(const Reduction& work);

}  // namespace shardlab::backends
