// eigen_multiply.h - the body of multiply(); included only where it is instantiated, because each
// instance takes seconds to compile.
#pragma once

// Eigen takes blocks of up to 128 KiB each from the stack; ranks run on fibers with small stacks.
#define EIGEN_STACK_ALLOCATION_LIMIT 16384
#include <Eigen/Core>

#include "kernels/matmul.h"

namespace shardlab {

template <typename T>
using EigenMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using EigenView = Eigen::Map<const EigenMatrix<T>, 0, Eigen::OuterStride<>>;

/// Calls use(view) with a row-major view of the matrix or, transposed, of its transpose.
template <typename T, typename Use>
void with_view(const MatrixView<const T>& matrix, Use&& use) {
  if (matrix.column_stride == 1) {
    use(EigenView<T>(matrix.data, matrix.rows, matrix.columns,
                     Eigen::OuterStride<>(matrix.row_stride)));
  } else {
    use(EigenView<T>(matrix.data, matrix.columns, matrix.rows,
                     Eigen::OuterStride<>(matrix.column_stride))
            .transpose());
  }
}

/// A column-major output is the row-major product of the transposes.
template <typename T>
void eigen_multiply(const MatrixView<T>& out, const MatrixView<const T>& a,
                    const MatrixView<const T>& b) {
  if (out.column_stride != 1) return eigen_multiply<T>(turned(out), turned(b), turned(a));
  Eigen::Map<EigenMatrix<T>, 0, Eigen::OuterStride<>> to(out.data, out.rows, out.columns,
                                                         Eigen::OuterStride<>(out.row_stride));
  if (a.columns == 0) {
    to.setZero();
    return;
  }
  with_view<T>(a, [&](const auto& left) {
    with_view<T>(b, [&](const auto& right) { to.noalias() = left * right; });
  });
}

}  // namespace shardlab
