// row_reduce.h - reducing rows in a fixed order: 32 lanes within leaves of 512 elements, leaves
// pairwise. The order depends on the number of elements only, and not on a tensor's layout: it is
// read once, and converted a little at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/loop_kinds.h"
#include "kernels/rows.h"

namespace shardlab {

// Rows that are side by side, read together line by line: line i holds element i
// of each of them, so that memory is read in its own order.

/// Neighbouring rows of one group: `count` of them from row `first` on.
struct Neighbours {
  std::int64_t first;
  std::int64_t count;
};

/// Elements of such rows as T, for reading.
template <typename T>
class InputLines {
 public:
  static constexpr std::int64_t kKept = 4;

  /// Whether rows of the layout are worth it.
  static bool suits(const RowLayout& layout) {
    constexpr std::int64_t kFewest = 8;
    return !layout.in_one_piece() && layout.columns() >= kFewest;
  }

  InputLines(const Tensor& source, const RowLayout& layout, const Neighbours& rows)
      : dtype_(source.dtype()),
        count_(rows.count),
        size_(layout.size()),
        step_(layout.column_stride() * item_bytes(dtype_)),
        data_(readable_bytes(source) + layout.offset_of(rows.first) * item_bytes(dtype_)) {
    if (dtype_ != dtype_of<T>()) buffer_ = scratch<T>(kKept * count_);
  }

  /// Number of elements in a line, and number of lines.
  std::int64_t columns() const { return count_; }
  std::int64_t lines() const { return size_; }

  /// Line i, valid until the next call with this slot, one of kKept.
  const T* line(std::int64_t i, std::int64_t slot) const {
    const std::byte* from = data_ + i * step_;
    if (!buffer_) return reinterpret_cast<const T*>(from);
    T* const to = buffer_.get() + slot * count_;
    convert_run({to, 1, dtype_of<T>()}, {from, 1, dtype_}, count_);
    return to;
  }

 private:
  DType dtype_;
  std::int64_t count_, size_, step_;
  const std::byte* data_;
  Scratch<T> buffer_;
};

/// Calls run(Neighbours) for all rows, as many at a time as leave their lanes room in a core's
/// cache.
void for_neighbours(const RowLayout& layout, const auto& run) {
  constexpr std::int64_t kMost = 1024;
  const std::int64_t all = layout.columns();
  for (std::int64_t row = 0; row < layout.rows(); row += all) {
    for (std::int64_t c = 0; c < all; c += kMost) {
      run(Neighbours{row + c, std::min(kMost, all - c)});
    }
  }
}

/// A fold as the identity and the combination of two values.
template <Fold fold>
struct FoldOp {
  template <typename T>
  static T identity() {
    return neutral<T>(fold);
  }
  template <typename T>
  static T combine(T a, T b) {
    return folded(fold, b, a);
  }
};
using SumOp = FoldOp<Fold::kSum>;
using ProdOp = FoldOp<Fold::kProduct>;
using MaxOp = FoldOp<Fold::kMax>;
using MinOp = FoldOp<Fold::kMin>;

inline constexpr std::int64_t kReduceLanes = 32;
inline constexpr std::int64_t kReduceLeaf = 512;

/// Op over at(0), at(1), ..., at most one leaf: element i meets lane i % 32, then each lane the one
/// half of them above it, until one is left.
template <typename Op, typename T, typename At>
T reduce_leaf(const At& at, std::int64_t count) {
  T lanes[kReduceLanes];
  for (T& lane : lanes) lane = Op::template identity<T>();
  const std::int64_t whole = count - count % kReduceLanes;
  for (std::int64_t i = 0; i < whole; i += kReduceLanes) {
    for (std::int64_t k = 0; k < kReduceLanes; ++k) lanes[k] = Op::combine(lanes[k], at(i + k));
  }
  for (std::int64_t k = 0; whole < count && k < kReduceLanes; ++k) {
    const T value = whole + k < count ? at(whole + k) : Op::template identity<T>();
    lanes[k] = Op::combine(lanes[k], value);
  }
#pragma GCC unroll 8
  for (std::int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k) lanes[k] = Op::combine(lanes[k], lanes[k + half]);
  }
  return lanes[0];
}

/// Op over [first, first + count), of which leaf(first, count) gives the result of one leaf: halves
/// at a multiple of the leaf size, so that the order of additions is a function of the count and
/// not of the machine. Rounding errors grow with log(count).
template <typename Op, typename T, typename Leaf>
T reduce_leaves(const Leaf& leaf, std::int64_t first, std::int64_t count) {
  if (count <= kReduceLeaf) return leaf(first, count);
  const std::int64_t leaves = (count + kReduceLeaf - 1) / kReduceLeaf;
  const std::int64_t half = leaves / 2 * kReduceLeaf;
  const T lower = reduce_leaves<Op, T>(leaf, first, half);
  return Op::combine(lower, reduce_leaves<Op, T>(leaf, first + half, count - half));
}

/// Op over at(0), at(1), ...
template <typename Op, typename T, typename At>
T reduce_elements(const At& at, std::int64_t count) {
  return reduce_leaves<Op, T>(
      [&](std::int64_t first, std::int64_t size) {
        return reduce_leaf<Op, T>([&](std::int64_t i) { return at(first + i); }, size);
      },
      0, count);
}
template <typename Op, typename T>
T reduce_row(const T* row, std::int64_t count) {
  return reduce_elements<Op, T>([row](std::int64_t i) { return row[i]; }, count);
}

/// The reduction of a row, in the same order, of columns that are side by side: their lanes, and
/// the results that wait for the upper half of a range, are rows of one buffer.
template <typename Op, typename Result, typename Source>
class ColumnReduction {
 public:
  explicit ColumnReduction(const InputLines<Source>& lines)
      : lines_(lines),
        columns_(lines.columns()),
        work_(scratch<Result>(rows_of_work(lines.lines()) * columns_)) {}

  /// to[c] for all columns.
  void run(Result* to) const {
    const std::int64_t count = lines_.lines();
    reduce(0, count, work_.get() + lanes_of(count) * columns_, to);
  }

 private:
  // Numbers that combine with the identity do not change; complex products of infinities do.
  static std::int64_t lanes_of(std::int64_t count) {
    return std::is_arithmetic_v<Result> ? std::clamp<std::int64_t>(count, 1, kReduceLanes)
                                        : kReduceLanes;
  }
  static std::int64_t rows_of_work(std::int64_t count) {
    const auto leaves = static_cast<std::uint64_t>((count + kReduceLeaf - 1) / kReduceLeaf);
    return lanes_of(count) + std::bit_width(leaves);
  }

  void reduce(std::int64_t first, std::int64_t count, Result* waiting, Result* to) const {
    if (count <= kReduceLeaf) return reduce_lines(first, count, to);
    const std::int64_t leaves = (count + kReduceLeaf - 1) / kReduceLeaf;
    const std::int64_t half = leaves / 2 * kReduceLeaf;
    reduce(first, half, waiting + columns_, to);
    reduce(first + half, count - half, waiting + columns_, waiting);
    combine(to, waiting);
  }

  void reduce_lines(std::int64_t first, std::int64_t count, Result* to) const {
    const std::int64_t used = lanes_of(count);
    std::fill_n(lane(0), used * columns_, Op::template identity<Result>());
    constexpr std::int64_t kTogether = InputLines<Source>::kKept;
    std::int64_t done = 0;
    for (; done + kTogether * kReduceLanes <= count; done += kTogether * kReduceLanes) {
      for (std::int64_t i = 0; i < kReduceLanes; ++i) add<kTogether>(i, first + done + i);
    }
    for (; done < count; ++done) add<1>(done % kReduceLanes, first + done);
    for (std::int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half && i + half < used; ++i) combine(lane(i), lane(i + half));
    }
    std::copy_n(lane(0), columns_, to);
  }

  // A lane takes several lines, 32 apart, since it is then read and written once for all of them.
  template <std::int64_t lines>
  void add(std::int64_t index, std::int64_t first) const {
    const Source* from[lines];
    for (std::int64_t k = 0; k < lines; ++k) from[k] = lines_.line(first + k * kReduceLanes, k);
    Result* const to = lane(index);
#pragma GCC ivdep
    for (std::int64_t c = 0; c < columns_; ++c) {
      Result value = to[c];
#pragma GCC unroll 4
      for (std::int64_t k = 0; k < lines; ++k) {
        value = Op::combine(value, widened<Result>(from[k][c]));
      }
      to[c] = value;
    }
  }

  void combine(Result* to, const Result* other) const {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < columns_; ++c) to[c] = Op::combine(to[c], other[c]);
  }

  Result* lane(std::int64_t index) const { return work_.get() + index * columns_; }

  const InputLines<Source>& lines_;
  std::int64_t columns_;
  Scratch<Result> work_;
};

/// results[i] = Op over row i, read as Source. Rows that are side by side are reduced together.
template <typename Op, typename T, typename Source>
Scratch<T> reduce_read_as(const Tensor& self, const RowLayout& layout) {
  auto results = scratch<T>(layout.rows());
  if (InputLines<Source>::suits(layout)) {
    for_neighbours(layout, [&](const Neighbours& rows) {
      const InputLines<Source> lines(self, layout, rows);
      ColumnReduction<Op, T, Source>(lines).run(results.get() + rows.first);
    });
    return results;
  }
  Rows<Source> rows(self, layout);
  for (std::int64_t row = 0; row < layout.rows(); ++row) {
    const auto leaf = [&](std::int64_t first, std::int64_t count) {
      const Source* x = rows.part(row, first, count);
      return reduce_leaf<Op, T>([x](std::int64_t i) { return widened<T>(x[i]); }, count);
    };
    results[row] = reduce_leaves<Op, T>(leaf, 0, layout.size());
  }
  return results;
}

/// results[i] = Op over row i.
template <typename Op, typename T>
Scratch<T> reduce_with(const Tensor& self, const RowLayout& layout) {
  if constexpr (std::is_same_v<T, float>) {
    if (self.dtype() == DType::kBF16) return reduce_read_as<Op, T, BFloat16>(self, layout);
  }
  return reduce_read_as<Op, T, T>(self, layout);
}

}  // namespace shardlab
