// tile_multiply.h - products that are too narrow or have too few terms for Eigen's blocks, as
// sharded weights make them: tiles of a few rows by one or two registers of columns. Each element
// is a sum in ascending order within an inner block, whatever the registers, and then over blocks.
#pragma once

#include "kernels/eigen_multiply.h"
#include "kernels/scratch.h"

namespace shardlab {

/// The product of one inner block.
template <typename T>
class TileProduct {
  using Packet = typename Eigen::internal::packet_traits<T>::type;
  static constexpr std::int64_t kLanes = Eigen::internal::packet_traits<T>::size;

 public:
  /// Adds to the contents of `out` if `adds`.
  TileProduct(const MatrixView<T>& out, const MatrixView<const T>& a, const MatrixView<const T>& b,
              bool adds)
      : out_(out), a_(a), b_(b), adds_(adds), packed_(scratch<T>(b.rows * 2 * kLanes)) {}

  void run() const {
    std::int64_t first = 0;
    for (; first + kLanes < out_.columns; first += 2 * kLanes) run_columns<2>(first);
    if (first < out_.columns) run_columns<1>(first);
  }

 private:
  // So many registers of columns, for all rows.
  template <int packets>
  void run_columns(std::int64_t first) const {
    constexpr std::int64_t kRoom = packets * kLanes;
    const std::int64_t width = std::min(kRoom, out_.columns - first);
    // Columns line by line, zeros behind the last.
    T* line = packed_.get();
    for (std::int64_t k = 0; k < b_.rows; ++k, line += kRoom) {
      const T* from = b_.data + k * b_.row_stride + first * b_.column_stride;
      for (std::int64_t i = 0; i < width; ++i) line[i] = from[i * b_.column_stride];
      std::fill(line + width, line + kRoom, T(0));
    }
    std::int64_t row = 0;
    for (; row + 6 <= out_.rows; row += 6) run_tile<6, packets>(row, first, width);
    for (; row < out_.rows; ++row) run_tile<1, packets>(row, first, width);
  }

  // Loops over sums are unrolled early, else they are kept in memory, too.
  template <int rows, int packets>
  void run_tile(std::int64_t first_row, std::int64_t first, std::int64_t width) const {
    namespace lanes = Eigen::internal;
    T* const to = out_.data + first_row * out_.row_stride + first;
    Packet sums[rows][packets];
    const T* lefts[rows];
#pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
      lefts[row] = a_.data + (first_row + row) * a_.row_stride;
#pragma GCC unroll 2
      for (int i = 0; i < packets; ++i) sums[row][i] = lanes::pset1<Packet>(T(0));
    }
    const T* line = packed_.get();
    const std::int64_t end = b_.rows * a_.column_stride;
    for (std::int64_t k = 0; k < end; k += a_.column_stride, line += packets * kLanes) {
      Packet right[packets];
#pragma GCC unroll 2
      for (int i = 0; i < packets; ++i) right[i] = lanes::ploadu<Packet>(line + i * kLanes);
#pragma GCC unroll 16
      for (int row = 0; row < rows; ++row) {
        const Packet one = lanes::pset1<Packet>(lefts[row][k]);
#pragma GCC unroll 2
        for (int i = 0; i < packets; ++i) sums[row][i] = lanes::pmadd(one, right[i], sums[row][i]);
      }
    }
#pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 2
      for (int i = 0; i < packets; ++i) {
        store(to + row * out_.row_stride + i * kLanes, sums[row][i], width - i * kLanes);
      }
    }
  }

  // Stores as many lanes as there are columns.
  EIGEN_ALWAYS_INLINE void store(T* to, const Packet& sum, std::int64_t count) const {
    namespace lanes = Eigen::internal;
    if (count >= kLanes) {
      lanes::pstoreu(to, adds_ ? lanes::padd(lanes::ploadu<Packet>(to), sum) : sum);
      return;
    }
    T values[kLanes];
    lanes::pstoreu(values, sum);
    for (std::int64_t i = 0; i < count; ++i) to[i] = adds_ ? to[i] + values[i] : values[i];
  }

  MatrixView<T> out_;
  MatrixView<const T> a_, b_;
  bool adds_;
  Scratch<T> packed_;
};

/// `out` by rows.
template <typename T>
void tile_multiply(const MatrixView<T>& out, const MatrixView<const T>& a,
                   const MatrixView<const T>& b) {
  const InnerBlocks<T> blocks(a.columns);
  for (std::int64_t i = 0; i < blocks.count(); ++i) {
    const auto [first, count] = blocks.at(i);
    TileProduct<T>(out, columns_of(a, first, count), rows_of(b, first, count), i > 0).run();
  }
}

/// out = a b. Eigen adds up the terms of an element one after the other in panels of two or three
/// registers of columns, of which kPanel is a whole number on every processor, and in another order
/// in the rest; tiles compute the rest, in the order of panels. Products of vectors are Eigen's.
template <typename T>
void multiply_real(const MatrixView<T>& out, const MatrixView<const T>& a,
                   const MatrixView<const T>& b) {
  if (out.rows == 1 || out.columns == 1) return eigen_multiply(out, a, b);
  if (out.column_stride != 1) return multiply_real<T>(turned(out), turned(b), turned(a));
  constexpr std::int64_t kPanel = 3 * 64 / sizeof(T);
  constexpr std::int64_t kFewTerms = 32;  // packing blocks would take longer than the product
  const std::int64_t whole = a.columns > kFewTerms ? out.columns / kPanel * kPanel : 0;
  const std::int64_t rest = out.columns - whole;
  // Both loops read `a`. With few columns that takes as long as the product, so that the second one
  // should find it in a core's cache; Eigen packs its part of `b` again for each part.
  constexpr std::int64_t kFewPanels = 2, kFewestRows = 256;
  constexpr std::int64_t kKept = (std::int64_t{512} << 10) / sizeof(T);
  const bool cut = whole > 0 && rest > 0 && whole <= kFewPanels * kPanel;
  const std::int64_t rows = cut ? std::max(kKept / a.columns, kFewestRows) : out.rows;
  for (std::int64_t row = 0; row < out.rows; row += rows) {
    const std::int64_t some = std::min(rows, out.rows - row);
    const MatrixView<T> to = rows_of(out, row, some);
    const MatrixView<const T> left = rows_of(a, row, some);
    if (whole > 0)
      eigen_multiply_blocks<T>(columns_of(to, 0, whole), left, columns_of(b, 0, whole));
    if (rest > 0) tile_multiply<T>(columns_of(to, whole, rest), left, columns_of(b, whole, rest));
  }
}

}  // namespace shardlab
