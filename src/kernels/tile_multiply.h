// tile_multiply.h - products that are too narrow or have too few terms for Eigen's blocks, as
// sharded weights make them: tiles of a few rows by one or two registers of columns. Each element
// is a sum in ascending order within an inner block, whatever the registers, and then over blocks.
#pragma once

#include "kernels/eigen_multiply.h"
#include "kernels/scratch.h"
#include "tensor/turn_square.h"

namespace shardlab {

/// Columns of `b` as a tile reads them: so many registers of them, line k behind line k - 1.
template <typename T>
struct TileColumns {
  const T* data;
  std::int64_t step;
};

template <typename T>
class TileProduct {
  using Packet = typename Eigen::internal::packet_traits<T>::type;
  static constexpr std::int64_t kLanes = Eigen::internal::packet_traits<T>::size;
  static constexpr std::int64_t kWide = 2 * kLanes;

 public:
  /// Adds to the contents of `out` if `adds`.
  TileProduct(const MatrixView<T>& out, const MatrixView<const T>& a, const MatrixView<const T>& b,
              bool adds)
      : out_(out), a_(a), b_(b), adds_(adds) {}

  /// Rows are written from end to end: writing takes longer than multiplying where terms are few.
  void run() {
    pack();
    std::int64_t row = 0;
    const auto run_rows = [&]<int rows>() {
      for (; row + rows <= out_.rows; row += rows) run_row_block<rows>(row);
    };
    if (out_.columns <= kLanes) run_rows.template operator()<12>();
    run_rows.template operator()<6>();
    run_rows.template operator()<4>();
    run_rows.template operator()<2>();
    run_rows.template operator()<1>();
  }

 private:
  // Whether tiles read the columns in place, as long as they fill registers: few lines, or lines
  // that are read once.
  bool reads_in_place() const {
    constexpr std::int64_t kFewLines = 32;
    return b_.column_stride == 1 && (b_.rows <= kFewLines || out_.rows <= 6);
  }

  // Number of columns of a packed group, those from `first` on.
  std::int64_t group_width(std::int64_t first) const {
    return out_.columns - first > kLanes ? kWide : kLanes;
  }

  // Columns that are not read in place, in groups, zeros behind the last.
  void pack() {
    const std::int64_t columns = out_.columns;
    packed_from_ = reads_in_place() ? columns / kWide * kWide : 0;
    if (packed_from_ == columns) return;
    const std::int64_t registers = (columns - packed_from_ + kLanes - 1) / kLanes;
    const std::int64_t size = registers * b_.rows * kLanes;
    if (size <= kFew) {
      packed_ = few_;
    } else {
      many_ = scratch<T>(size);
      packed_ = many_.get();
    }
    T* to = packed_;
    for (std::int64_t first = packed_from_; first < columns; first += kWide) {
      const std::int64_t room = group_width(first), width = std::min(room, columns - first);
      const T* const group = b_.data + first * b_.column_stride;
      std::int64_t k = b_.row_stride == 1 && width == room ? pack_turned(to, group, room) : 0;
      for (to += k * room; k < b_.rows; ++k, to += room) {
        const T* from = group + k * b_.row_stride;
        for (std::int64_t i = 0; i < width; ++i) to[i] = from[i * b_.column_stride];
        std::fill(to + width, to + room, T(0));
      }
    }
  }

  // A group of columns that follow each other, complete, by squares; returns the number of their
  // rows in whole squares.
  std::int64_t pack_turned(T* to, const T* from, std::int64_t room) const {
    constexpr std::int64_t kSide = kLanesTurned<T>;
    const std::int64_t rows = b_.rows / kSide * kSide;
    for (std::int64_t i = 0; i < room; i += kSide) {
      for (std::int64_t k = 0; k < rows; k += kSide) {
        turn_square(to + k * room + i, room, from + i * b_.column_stride + k, b_.column_stride);
      }
    }
    return rows;
  }

  TileColumns<T> columns_from(std::int64_t first) const {
    if (first < packed_from_) return {b_.data + first, b_.row_stride};
    return {packed_ + (first - packed_from_) * b_.rows, group_width(first)};
  }

  template <int rows>
  void run_row_block(std::int64_t row) const {
    for (std::int64_t first = 0; first < out_.columns; first += kWide) {
      const std::int64_t width = std::min(kWide, out_.columns - first);
      T* const to = out_.data + row * out_.row_stride + first;
      // The lines of the next block are fetched meanwhile.
      for (int r = 0; r < rows; ++r) __builtin_prefetch(to + (rows + r) * out_.row_stride, 1);
      const T* const left = a_.data + row * a_.row_stride;
      if constexpr (rows <= 6) {
        if (width > kLanes) {
          run_tile<rows, 2>(to, left, columns_from(first), width);
          continue;
        }
      }
      run_tile<rows, 1>(to, left, columns_from(first), width);
    }
  }

  // Loops over sums are unrolled early, else they are kept in memory, too.
  template <int rows, int packets>
  void run_tile(T* to, const T* left, const TileColumns<T>& columns, std::int64_t width) const {
    namespace lanes = Eigen::internal;
    Packet sums[rows][packets];
    const T* lefts[rows];
#pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
      lefts[row] = left + row * a_.row_stride;
#pragma GCC unroll 2
      for (int i = 0; i < packets; ++i) sums[row][i] = lanes::pset1<Packet>(T(0));
    }
    const T* line = columns.data;
    const std::int64_t end = b_.rows * a_.column_stride;
    for (std::int64_t k = 0; k < end; k += a_.column_stride, line += columns.step) {
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

  static constexpr std::int64_t kFew = 256;
  MatrixView<T> out_;
  MatrixView<const T> a_, b_;
  bool adds_;
  std::int64_t packed_from_ = 0;
  T* packed_ = nullptr;
  Scratch<T> many_;
  T few_[kFew];
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
