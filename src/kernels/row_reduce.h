// row_reduce.h - reducing one contiguous row in a fixed order: 32 lanes within leaves of 512
// elements, leaves pairwise. The order depends on the number of elements only.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/functors.h"

namespace shardlab {

/// Ops as a pair: the identity, and how two values combine. NaN wins extrema.
struct SumOp {
  template <typename T>
  static T identity() {
    return T(0);
  }
  template <typename T>
  static T combine(T a, T b) {
    return sum_of(a, b);
  }
};
struct ProdOp {
  template <typename T>
  static T identity() {
    return T(1);
  }
  template <typename T>
  static T combine(T a, T b) {
    return product_of(a, b);
  }
};
struct MaxOp {
  template <typename T>
  static T identity() {
    if constexpr (Integer<T>)
      return std::numeric_limits<T>::lowest();
    else
      return -std::numeric_limits<T>::infinity();
  }
  template <typename T>
  static T combine(T a, T b) {
    return element::Maximum::apply(a, b);
  }
};
struct MinOp {
  template <typename T>
  static T identity() {
    if constexpr (Integer<T>)
      return std::numeric_limits<T>::max();
    else
      return std::numeric_limits<T>::infinity();
  }
  template <typename T>
  static T combine(T a, T b) {
    return element::Minimum::apply(a, b);
  }
};

inline constexpr std::int64_t kReduceLanes = 32;
inline constexpr std::int64_t kReduceLeaf = 512;

/// Op over get(i) for i in [first, first + count), at most one leaf.
template <typename Op, typename T, typename Get>
T reduce_leaf(const Get& get, std::int64_t first, std::int64_t count) {
  T lanes[kReduceLanes];
  for (T& lane : lanes) lane = Op::template identity<T>();
  std::int64_t i = 0;
  for (; i + kReduceLanes <= count; i += kReduceLanes) {
    for (std::int64_t lane = 0; lane < kReduceLanes; ++lane) {
      lanes[lane] = Op::combine(lanes[lane], get(first + i + lane));
    }
  }
  for (std::int64_t lane = 0; i + lane < count; ++lane) {
    lanes[lane] = Op::combine(lanes[lane], get(first + i + lane));
  }
  for (std::int64_t width = kReduceLanes / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) {
      lanes[lane] = Op::combine(lanes[lane], lanes[lane + width]);
    }
  }
  return lanes[0];
}

/// The same for any count: halves at a multiple of the leaf size, so that the order of additions is
/// a function of the count and not of the machine. Rounding errors grow with log(count).
template <typename Op, typename T, typename Get>
T reduce_range(const Get& get, std::int64_t first, std::int64_t count) {
  if (count <= kReduceLeaf) return reduce_leaf<Op, T>(get, first, count);
  const std::int64_t leaves = (count + kReduceLeaf - 1) / kReduceLeaf;
  const std::int64_t half = leaves / 2 * kReduceLeaf;
  return Op::combine(reduce_range<Op, T>(get, first, half),
                     reduce_range<Op, T>(get, first + half, count - half));
}

/// Of contiguous elements.
template <typename Op, typename T>
T reduce_row(const T* row, std::int64_t count) {
  return reduce_range<Op, T>([row](std::int64_t i) { return row[i]; }, 0, count);
}

/// How many columns are reduced together: their lanes take 8 KiB of a fiber's stack.
template <typename T>
inline constexpr std::int64_t kReduceColumns = 256 / std::int64_t{sizeof(T)};

/// The same reduction, in the same order, of up to kReduceColumns rows that lie side by side:
/// element i of row c is first[i * stride + c].
template <typename T>
struct ColumnBlock {
  const T* first;
  std::int64_t stride;
  std::int64_t columns;

  ColumnBlock below(std::int64_t elements) const {
    return {first + elements * stride, stride, columns};
  }
};

template <typename Op, typename T>
void combine_into(T* to, const T* other, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c) to[c] = Op::combine(to[c], other[c]);
}

template <typename Op, typename T>
void reduce_column_leaf(const ColumnBlock<T>& block, std::int64_t count, T* to) {
  T lanes[kReduceLanes][kReduceColumns<T>];
  for (auto& lane : lanes) {
    for (T& element : lane) element = Op::template identity<T>();
  }
  for (std::int64_t i = 0; i < count; ++i) {
    combine_into<Op>(lanes[i % kReduceLanes], block.first + i * block.stride, block.columns);
  }
  for (std::int64_t width = kReduceLanes / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) {
      combine_into<Op>(lanes[lane], static_cast<const T*>(lanes[lane + width]), block.columns);
    }
  }
  for (std::int64_t c = 0; c < block.columns; ++c) to[c] = lanes[0][c];
}

/// Writes one result per column to `to`.
template <typename Op, typename T>
void reduce_columns(const ColumnBlock<T>& block, std::int64_t count, T* to) {
  if (count <= kReduceLeaf) return reduce_column_leaf<Op>(block, count, to);
  const std::int64_t leaves = (count + kReduceLeaf - 1) / kReduceLeaf;
  const std::int64_t half = leaves / 2 * kReduceLeaf;
  T other[kReduceColumns<T>];
  reduce_columns<Op>(block, half, to);
  reduce_columns<Op>(block.below(half), count - half, other);
  combine_into<Op>(to, static_cast<const T*>(other), block.columns);
}

}  // namespace shardlab
