// wide_panels.h - products through Eigen of which AVX-512 takes as many columns as it can without
// changing a bit.
#pragma once

#include "kernels/eigen_multiply.h"
#include "kernels/wide_kernels.h"

namespace shardlab {

/// Eigen adds up the terms of an element one after the other in whole panels of columns, three
/// registers wide, and in another order in what is left over. A panel of AVX-512 is two of AVX2, so
/// the second copy takes whole panels and the first copy the rest, and each element has the bits
/// that the first copy alone would give it.
template <typename T>
void multiply_in_panels(const MatrixView<T>& out, const MatrixView<const T>& a,
                        const MatrixView<const T>& b, WideKernels::Multiply<T> wide) {
  if (out.column_stride != 1) {
    return multiply_in_panels<T>(turned(out), turned(b), turned(a), wide);
  }
  constexpr std::int64_t kPanel = 3 * 64 / sizeof(T);
  constexpr std::int64_t kFew = 32;  // with smaller ones Eigen changes to other loops
  std::int64_t count = 0;
  if (wide != nullptr && out.rows > 1 && a.columns >= kFew) {
    count = out.columns / kPanel * kPanel;
    // Eigen has another loop for a single column.
    if (count > 0 && out.columns - count == 1) count -= kPanel;
  }
  if (count > 0) wide(columns_of(out, 0, count), a, columns_of(b, 0, count));
  if (const std::int64_t rest = out.columns - count; count == 0 || rest > 0) {
    eigen_multiply(columns_of(out, count, rest), a, columns_of(b, count, rest));
  }
}

}  // namespace shardlab
