// skinny_multiply.h - products with few columns or a short inner size, as sharded weights make
// them. Packing blocks, as eigen_multiply() does, would take longer there than the product.
#pragma once

#include "kernels/eigen_multiply.h"

namespace shardlab {

/// Rows [0, kRows) by kPackets packets of columns: each element is the sum over k in ascending
/// order.
template <int kRows, int kPackets, typename T>
void multiply_tile(const MatrixView<T>& out, const MatrixView<const T>& a,
                   const MatrixView<const T>& b) {
  namespace lanes = Eigen::internal;
  using Packet = typename lanes::packet_traits<T>::type;
  constexpr std::int64_t kLanes = lanes::packet_traits<T>::size;
  Packet sums[kRows][kPackets];
  for (auto& row : sums) {
    for (Packet& sum : row) sum = lanes::pset1<Packet>(T(0));
  }
  for (std::int64_t k = 0; k < a.columns; ++k) {
    const T* right = b.data + k * b.row_stride;
    for (int row = 0; row < kRows; ++row) {
      const Packet left = lanes::pset1<Packet>(a.data[row * a.row_stride + k * a.column_stride]);
      for (int i = 0; i < kPackets; ++i) {
        sums[row][i] = lanes::pmadd(left, lanes::ploadu<Packet>(right + i * kLanes), sums[row][i]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kPackets; ++i) {
      lanes::pstoreu(out.data + row * out.row_stride + i * kLanes, sums[row][i]);
    }
  }
}

/// The same for one column.
template <typename T>
void multiply_column(const MatrixView<T>& out, const MatrixView<const T>& a, const T* column,
                     std::int64_t stride) {
  for (std::int64_t row = 0; row < out.rows; ++row) {
    T sum(0);
    for (std::int64_t k = 0; k < a.columns; ++k) {
      sum += a.data[row * a.row_stride + k * a.column_stride] * column[k * stride];
    }
    out.data[row * out.row_stride] = sum;
  }
}

/// All rows by kPackets packets of columns. Sums of eight chains hide how long one addition takes.
template <int kPackets, typename T>
void multiply_columns(MatrixView<T> out, MatrixView<const T> a, const MatrixView<const T>& b) {
  constexpr int kRows = 8 / kPackets;
  std::int64_t left = out.rows;
  for (; left >= kRows; left -= kRows) {
    multiply_tile<kRows, kPackets>(out, a, b);
    out.data += kRows * out.row_stride;
    a.data += kRows * a.row_stride;
  }
  for (; left > 0; --left) {
    multiply_tile<1, kPackets>(out, a, b);
    out.data += out.row_stride;
    a.data += a.row_stride;
  }
}

/// kRows rows by all columns, of which there is at least a packet.
template <int kRows, typename T>
void multiply_row_block(MatrixView<T> out, const MatrixView<const T>& a, MatrixView<const T> b) {
  constexpr std::int64_t kLanes = Eigen::internal::packet_traits<T>::size;
  std::int64_t left = out.columns;
  const auto advance = [&](std::int64_t columns) {
    out.data += columns;
    b.data += columns;
    left -= columns;
  };
  while (left >= 2 * kLanes) {
    // Writing takes longer than multiplying: the lines of the next block are fetched meanwhile.
    for (int row = 0; row < kRows; ++row) {
      __builtin_prefetch(out.data + (kRows + row) * out.row_stride, 1);
    }
    multiply_tile<kRows, 2>(out, a, b);
    advance(2 * kLanes);
  }
  if (left >= kLanes) {
    multiply_tile<kRows, 1>(out, a, b);
    advance(kLanes);
  }
  if (left > 0) {  // the last packet again gives some columns twice
    advance(left - kLanes);
    multiply_tile<kRows, 1>(out, a, b);
  }
}

/// For a short inner size: rows are written from end to end, and the short `b` stays in L1.
template <typename T>
void multiply_rows(MatrixView<T> out, MatrixView<const T> a, const MatrixView<const T>& b) {
  std::int64_t left = out.rows;
  const auto multiply_blocks = [&]<int rows>() {
    for (; left >= rows; left -= rows) {
      multiply_row_block<rows>(out, a, b);
      out.data += rows * out.row_stride;
      a.data += rows * a.row_stride;
    }
  };
  multiply_blocks.template operator()<6>();
  multiply_blocks.template operator()<4>();
  multiply_blocks.template operator()<1>();
}

/// False when the product is none of these.
template <typename T>
bool multiply_skinny(MatrixView<T> out, const MatrixView<const T>& a, MatrixView<const T> b) {
  constexpr std::int64_t kFew = 32;
  constexpr std::int64_t kLanes = Eigen::internal::packet_traits<T>::size;
  if (out.column_stride != 1 || b.column_stride != 1) return false;
  if (a.columns > kFew && (out.columns > kFew || out.columns < kLanes)) return false;
  std::int64_t left = out.columns;
  const auto advance = [&](std::int64_t columns) {
    out.data += columns;
    b.data += columns;
    left -= columns;
  };
  if (left < kLanes) {
    while (left > 0) {
      multiply_column(out, a, b.data, b.row_stride);
      advance(1);
    }
    return true;
  }
  if (a.columns <= kFew) {
    multiply_rows(out, a, b);
    return true;
  }
  while (left >= 2 * kLanes) {
    multiply_columns<2>(out, a, b);
    advance(2 * kLanes);
  }
  while (left >= kLanes) {
    multiply_columns<1>(out, a, b);
    advance(kLanes);
  }
  if (left > 0) {
    advance(left - kLanes);
    multiply_columns<1>(out, a, b);
  }
  return true;
}

}  // namespace shardlab
