// eigen_multiply.h - the body of multiply(); included only where it is instantiated, because each
// instance takes seconds to compile.
#pragma once

// Eigen takes blocks of up to 128 KiB each from the stack; ranks run on fibers with small stacks.
#define EIGEN_STACK_ALLOCATION_LIMIT 16384
#include <Eigen/Core>

#include <type_traits>

#include "kernels/products.h"

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

/// Eigen's block sizes follow the caches of the machine, and with them the order in which terms are
/// added; they are fixed here to those of a common processor, for the copy of Eigen that calls it.
inline void fix_block_sizes() {
  constexpr std::ptrdiff_t kKiB = 1024;
  Eigen::setCpuCacheSizes(32 * kKiB, 1024 * kKiB, 8192 * kKiB);
}

/// A column-major output is the row-major product of the transposes. Eigen has other loops for
/// vectors, and cuts what is complex by itself.
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
  const bool cut = std::is_floating_point_v<T> && out.rows > 1 && out.columns > 1;
  const InnerBlocks<T> blocks(cut ? a.columns : 1);
  for (std::int64_t i = 0; i < blocks.count(); ++i) {
    const Block block = cut ? blocks.at(i) : Block{0, a.columns};
    with_view<T>(columns_of(a, block.first, block.count), [&](const auto& left) {
      with_view<T>(rows_of(b, block.first, block.count), [&](const auto& right) {
        if (i == 0) {
          to.noalias() = left * right;
        } else {
          to.noalias() += left * right;
        }
      });
    });
  }
}

}  // namespace shardlab
