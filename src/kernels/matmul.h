// matmul.h - one matrix product through Eigen, single-threaded with fixed blocking, so that results
// do not depend on the machine.
#pragma once

#include <complex>
#include <cstdint>
#include <string_view>

namespace shardlab {

/// A matrix in memory: element (r, c) is data[r * row_stride + c * column_stride]; one of the two
/// strides is 1.
template <typename T>
struct MatrixView {
  T* data;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

/// The transpose, on the same memory.
template <typename T>
MatrixView<T> turned(const MatrixView<T>& m) {
  return {m.data, m.columns, m.rows, m.column_stride, m.row_stride};
}

/// Some columns of the matrix, on the same memory.
template <typename T>
MatrixView<T> columns_of(const MatrixView<T>& m, std::int64_t first, std::int64_t count) {
  return {m.data + first * m.column_stride, m.rows, count, m.row_stride, m.column_stride};
}

/// Some rows of it.
template <typename T>
MatrixView<T> rows_of(const MatrixView<T>& m, std::int64_t first, std::int64_t count) {
  return turned(columns_of(turned(m), first, count));
}

/// out = a b, zeros when the inner size is 0. `out` overlaps neither.
void multiply(const MatrixView<float>& out, const MatrixView<const float>& a,
              const MatrixView<const float>& b);
void multiply(const MatrixView<double>& out, const MatrixView<const double>& a,
              const MatrixView<const double>& b);
void multiply(const MatrixView<std::complex<float>>& out,
              const MatrixView<const std::complex<float>>& a,
              const MatrixView<const std::complex<float>>& b);
void multiply(const MatrixView<std::complex<double>>& out,
              const MatrixView<const std::complex<double>>& a,
              const MatrixView<const std::complex<double>>& b);
/// Wraps.
void multiply(const MatrixView<std::int64_t>& out, const MatrixView<const std::int64_t>& a,
              const MatrixView<const std::int64_t>& b);

/// The instructions that products are built for: "avx2", "sse", "neon" or "other". They
/// decide the order in which terms are added, so values of two levels differ in rounding.
std::string_view product_level();

/// Fixes Eigen's cache sizes for the process; the first call counts. Thread-safe.
void fix_matmul_blocking();

}  // namespace shardlab
