// products.h - the blocks of a product in f32 or f64, by which every element has the same bits in
// whatever registers it is computed. Pure but for the matrices.
#pragma once

#include <algorithm>

#include "kernels/matmul.h"

namespace shardlab {

/// The two loops that a product is made of, each compiled for one kind of registers.
template <typename T>
struct Products {
  using Multiply = void (*)(const MatrixView<T>& out, const MatrixView<const T>& a,
                            const MatrixView<const T>& b);
  /// By Eigen: whole panels of columns.
  Multiply by_eigen;
  /// By tiles of registers (tile_multiply.h): products too narrow or too short for Eigen's blocks.
  Multiply by_tiles;
};

/// out = a b with these loops. Eigen adds up the terms of an element one after the other in panels
/// of columns that are three registers wide, and in another order in the rest. A panel here is one
/// of AVX-512 and two of AVX2, so that there is no rest; tiles add up in the same order. Neither
/// matrix is a vector.
template <typename T>
void multiply_with(const Products<T>& products, const MatrixView<T>& out,
                   const MatrixView<const T>& a, const MatrixView<const T>& b) {
  if (out.column_stride != 1) return multiply_with<T>(products, turned(out), turned(b), turned(a));
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
    if (whole > 0) products.by_eigen(columns_of(to, 0, whole), left, columns_of(b, 0, whole));
    if (rest > 0) products.by_tiles(columns_of(to, whole, rest), left, columns_of(b, whole, rest));
  }
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

/// The loops of the copy of the kernels that calls this (tile_multiply.h).
template <typename T>
const Products<T>& own_products();

}  // namespace shardlab
