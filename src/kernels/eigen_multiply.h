// eigen_multiply.h - the body of multiply(); included only where it is instantiated, because each
// instance takes seconds to compile.
#pragma once

#include <algorithm>

#include "kernels/eigen_core.h"
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

/// Eigen's block sizes follow the caches of the machine, and with them the order in which terms are
/// added; they are fixed here to those of a common processor.
inline void fix_block_sizes() {
  constexpr std::ptrdiff_t kKiB = 1024;
  Eigen::setCpuCacheSizes(32 * kKiB, 1024 * kKiB, 8192 * kKiB);
}

/// A row-major output, for writing.
template <typename T>
auto row_major(const MatrixView<T>& out) {
  return Eigen::Map<EigenMatrix<T>, 0, Eigen::OuterStride<>>(out.data, out.rows, out.columns,
                                                             Eigen::OuterStride<>(out.row_stride));
}

/// Eigen cuts the work. A column-major output is the row-major product of the transposes.
template <typename T>
void eigen_multiply(const MatrixView<T>& out, const MatrixView<const T>& a,
                    const MatrixView<const T>& b) {
  if (out.column_stride != 1) return eigen_multiply<T>(turned(out), turned(b), turned(a));
  auto to = row_major(out);
  if (a.columns == 0) {
    to.setZero();
    return;
  }
  with_view<T>(a, [&](const auto& left) {
    with_view<T>(b, [&](const auto& right) { to.noalias() = left * right; });
  });
}

/// [first, first + count).
struct Block {
  std::int64_t first;
  std::int64_t count;
};

/// The inner size in blocks of equal length: the terms of a block are added up in registers, blocks
/// in memory. A block of `a` and one of `b` stay in the first cache.
template <typename T>
class InnerBlocks {
 public:
  explicit InnerBlocks(std::int64_t inner)
      : inner_(inner), blocks_(std::max<std::int64_t>(1, (inner + kMost - 1) / kMost)) {}

  std::int64_t count() const { return blocks_; }
  Block at(std::int64_t index) const {
    const std::int64_t first = inner_ * index / blocks_;
    return {first, inner_ * (index + 1) / blocks_ - first};
  }

 private:
  // Eigen does not cut sizes as short as this.
  static constexpr std::int64_t kMost = sizeof(T) == 4 ? 288 : 248;
  std::int64_t inner_, blocks_;
};

/// In blocks of the inner size, which is not 0. The output is row-major.
template <typename T>
void eigen_multiply_blocks(const MatrixView<T>& out, const MatrixView<const T>& a,
                           const MatrixView<const T>& b) {
  auto to = row_major(out);
  to.setZero();
  const InnerBlocks<T> blocks(a.columns);
  for (std::int64_t i = 0; i < blocks.count(); ++i) {
    const auto [first, count] = blocks.at(i);
    const MatrixView<const T> block_of_a = columns_of(a, first, count);
    const MatrixView<const T> block_of_b = rows_of(b, first, count);
    with_view<T>(block_of_a, [&](const auto& left) {
      with_view<T>(block_of_b, [&](const auto& right) { to.noalias() += left * right; });
    });
  }
}

}  // namespace shardlab
