// row_reduce.h - reducing rows in a fixed order: 32 lanes within leaves of 512 elements, leaves
// pairwise. The order depends on the number of elements only, and not on a tensor's layout: it is
// read once, and converted a little at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/column_lines.h"
#include "kernels/combine_lines.h"
#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/rows.h"
#include "kernels/vectors.h"

namespace shardlab {

/// A type that wraps as integers do.
template <typename T>
using WrappingOf = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

/// Ops as the identity, the combination of two values, and that of vectors, number by number. NaN
/// wins extrema.
struct SumOp {
  template <typename T>
  static T identity() {
    return T(0);
  }
  template <typename T>
  static T combine(T a, T b) {
    return sum_of(a, b);
  }
  template <typename T>
  static void combine_vectors(VectorOf<T>& to, const VectorOf<T>& other) {
    using Wrapping = VectorOf<WrappingOf<T>>;
    to = (VectorOf<T>)((Wrapping)to + (Wrapping)other);
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
  template <typename T>
  static void combine_vectors(VectorOf<T>& to, const VectorOf<T>& other) {
    using Wrapping = VectorOf<WrappingOf<T>>;
    to = (VectorOf<T>)((Wrapping)to * (Wrapping)other);
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
  template <typename T>
  static void combine_vectors(VectorOf<T>& to, const VectorOf<T>& other) {
    const VectorOf<T> most = to > other ? to : other;
    to = to == to ? most : to;
  }
  /// The same where none is NaN, in half the time.
  template <typename T>
  static void combine_numbers(VectorOf<T>& to, const VectorOf<T>& other) {
    to = to > other ? to : other;
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
  template <typename T>
  static void combine_vectors(VectorOf<T>& to, const VectorOf<T>& other) {
    const VectorOf<T> least = to < other ? to : other;
    to = to == to ? least : to;
  }
  /// The same where none is NaN, in half the time.
  template <typename T>
  static void combine_numbers(VectorOf<T>& to, const VectorOf<T>& other) {
    to = to < other ? to : other;
  }
};

inline constexpr std::int64_t kReduceLanes = 32;
inline constexpr std::int64_t kReduceLeaf = 512;

/// The lanes of a leaf, in vectors where T is a number that processors have vectors of: in
/// registers, as long as loops over them are unrolled before anything else.
template <typename Op, typename T, std::int64_t count = kReduceLanes>
class Lanes {
 public:
  Lanes() {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kParts; ++i) parts_[i] = VectorOf<T>{} + Op::template identity<T>();
#pragma GCC unroll 8
    for (std::size_t i = 0; i < nan_.size(); ++i) nan_[i] = MaskOf<T>{};
  }
  /// Lanes from i on take the vector that load(i, vector) fills in.
  template <typename Load>
  void take(const Load& load) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kParts; ++i) {
      VectorOf<T> part;
      load(static_cast<std::int64_t>(i * kWidth), part);
      Op::template combine_vectors<T>(parts_[i], part);
    }
  }
  void take(const T* values) {
    take([values](std::int64_t i, VectorOf<T>& to) { load_vector<T>(to, values + i); });
  }
  /// The same of numbers; NaN among them is noted for the end.
  template <typename Load>
  void take_numbers(const Load& load) requires NanDecides<Op, T> {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kParts; i += 2) {
      VectorOf<T> part, next;
      load(static_cast<std::int64_t>(i * kWidth), part);
      load(static_cast<std::int64_t>((i + 1) * kWidth), next);
      Op::template combine_numbers<T>(parts_[i], part);
      Op::template combine_numbers<T>(parts_[i + 1], next);
      note_nan<T>(nan_[i / 2], part, next);
    }
  }
  /// Whether take_numbers() was given a NaN.
  bool spoilt() const requires NanDecides<Op, T> {
    MaskOf<T> any = nan_[0];
    for (std::size_t i = 1; i < nan_.size(); ++i) any |= nan_[i];
    return any_of<T>(any);
  }
  /// Lane i with the one half of them above it, until one is left. As a call it would take lanes
  /// from registers to memory.
  [[gnu::always_inline]] T folded() {
#pragma GCC unroll 8
    for (std::size_t half = kParts / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < half; ++i) {
        Op::template combine_vectors<T>(parts_[i], parts_[i + half]);
      }
    }
    VectorOf<T> part = parts_[0];  // a copy: parts stay in registers
    fold<kWidth / 2>(part, std::make_index_sequence<kWidth>());
    return part[0];
  }

 private:
  // Lanes from `half` on are invalid afterwards.
  template <std::size_t half, std::size_t... lane>
  [[gnu::always_inline]] static void fold(VectorOf<T>& part, std::index_sequence<lane...> lanes) {
    const VectorOf<T> upper = __builtin_shufflevector(part, part, ((lane + half) % kWidth)...);
    Op::template combine_vectors<T>(part, upper);
    if constexpr (half > 1) fold<half / 2>(part, lanes);
  }

  static constexpr std::size_t kWidth = kWidthOf<T>;
  static constexpr std::size_t kParts = count / kWidth;
  VectorOf<T> parts_[kParts];
  std::array<MaskOf<T>, NanDecides<Op, T> ? kParts / 2 : 0> nan_;
};

template <typename Op, typename T>
requires(!std::is_arithmetic_v<T>) class Lanes<Op, T> {
 public:
  Lanes() {
    for (T& lane : lanes_) lane = Op::template identity<T>();
  }
  void take(const T* values) {
    for (std::int64_t i = 0; i < kReduceLanes; ++i) lanes_[i] = Op::combine(lanes_[i], values[i]);
  }
  T folded() {
    for (std::int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) lanes_[i] = Op::combine(lanes_[i], lanes_[i + half]);
    }
    return lanes_[0];
  }

 private:
  T lanes_[kReduceLanes];
};

/// Op over get(i) for i in [0, count), fewer than there are lanes: the rest would add identities.
template <typename Op, typename T, typename Get>
T reduce_few(const Get& get, std::int64_t count) {
  T lanes[kReduceLanes];
  lanes[0] = Op::template identity<T>();
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < count; ++i)
    lanes[i] = Op::combine(Op::template identity<T>(), get(i));
  while (count > 1) {
    const auto half =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)) / 2);
#pragma GCC unroll 1
    for (std::int64_t i = 0; i + half < count; ++i)
      lanes[i] = Op::combine(lanes[i], lanes[i + half]);
    count = half;
  }
  return lanes[0];
}

/// Op over at most one leaf: load(i) gives a vector of the elements from i on, get(i) one. Lanes
/// that a rest does not reach take the identity.
template <typename Op, typename T, typename Load, typename Get>
T reduce_vectors(const Load& load, const Get& get, std::int64_t count) {
  if (count < kReduceLanes) return reduce_few<Op, T>(get, count);
  Lanes<Op, T> lanes;
  const auto from = [&load](std::int64_t i) {
    return [&load, i](std::int64_t lane, VectorOf<T>& to) { load(i + lane, to); };
  };
  std::int64_t i = 0;
  if constexpr (NanDecides<Op, T>) {
    for (; i + kReduceLanes <= count; i += kReduceLanes) lanes.take_numbers(from(i));
    if (lanes.spoilt()) {
      lanes = {};
      i = 0;
    }
  }
  for (; i + kReduceLanes <= count; i += kReduceLanes) lanes.take(from(i));
  if (i < count) {
    T values[kReduceLanes];
    for (T& value : values) value = Op::template identity<T>();
    for (std::int64_t lane = 0; i + lane < count; ++lane) values[lane] = get(i + lane);
    lanes.take(static_cast<const T*>(values));
  }
  return lanes.folded();
}

/// Op over get(i) for i in [first, first + count), at most one leaf.
template <typename Op, typename T, typename Get>
T reduce_leaf(const Get& get, std::int64_t first, std::int64_t count) {
  if constexpr (std::is_arithmetic_v<T>) {
    const auto load = [&](std::int64_t i, VectorOf<T>& to) {
      T values[kWidthOf<T>];
      for (std::int64_t k = 0; k < kWidthOf<T>; ++k) values[k] = get(first + i + k);
      load_vector<T>(to, static_cast<const T*>(values));
    };
    return reduce_vectors<Op, T>(
        load, [&](std::int64_t i) { return get(first + i); }, count);
  } else {
    Lanes<Op, T> lanes;
    T values[kReduceLanes];
    for (std::int64_t i = 0; i < count; i += kReduceLanes) {
      for (std::int64_t lane = 0; lane < kReduceLanes; ++lane) {
        values[lane] = i + lane < count ? get(first + i + lane) : Op::template identity<T>();
      }
      lanes.take(values);
    }
    return lanes.folded();
  }
}

/// Of contiguous elements.
template <typename Op, typename T>
T reduce_leaf(const T* leaf, std::int64_t count) {
  const auto get = [leaf](std::int64_t i) { return leaf[i]; };
  if constexpr (std::is_arithmetic_v<T>) {
    return reduce_vectors<Op, T>(
        [leaf](std::int64_t i, VectorOf<T>& to) { load_vector<T>(to, leaf + i); }, get, count);
  } else {
    return reduce_leaf<Op, T>(get, 0, count);
  }
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

/// The same of get(i).
template <typename Op, typename T, typename Get>
T reduce_range(const Get& get, std::int64_t first, std::int64_t count) {
  return reduce_leaves<Op, T>(
      [&](std::int64_t from, std::int64_t size) { return reduce_leaf<Op, T>(get, from, size); },
      first, count);
}

/// Of contiguous elements.
template <typename Op, typename T>
T reduce_row(const T* row, std::int64_t count) {
  return reduce_leaves<Op, T>(
      [row](std::int64_t first, std::int64_t size) { return reduce_leaf<Op>(row + first, size); },
      0, count);
}

/// The reduction of a row, in the same order, of columns that are side by side: their lanes, and
/// the results that wait for the upper half of a range, are rows of `work`, which holds
/// rows_of_work(count) of them.
template <typename Op, typename T>
class ColumnReduction {
 public:
  ColumnReduction(T* work, std::int64_t columns) : work_(work), columns_(columns) {}

  static std::int64_t rows_of_work(std::int64_t count) {
    const auto leaves = static_cast<std::uint64_t>((count + kReduceLeaf - 1) / kReduceLeaf);
    return lanes_of(count) + std::bit_width(leaves);
  }

  /// to[c] = Op over row(i, slot)[c] for i in [0, count); of each of kRowsTogether slots the last
  /// row is still valid.
  template <typename Row>
  void run(const Row& row, std::int64_t count, T* to) const {
    reduce(row, 0, count, work_ + lanes_of(count) * columns_, to);
  }

 private:
  // Numbers that combine with the identity do not change; complex products of infinities do.
  static std::int64_t lanes_of(std::int64_t count) {
    return std::is_arithmetic_v<T> ? std::clamp<std::int64_t>(count, 1, kReduceLanes)
                                   : kReduceLanes;
  }

  template <typename Row>
  void reduce(const Row& row, std::int64_t first, std::int64_t count, T* waiting, T* to) const {
    if (count <= kReduceLeaf) return reduce_leaf(row, first, count, to);
    const std::int64_t leaves = (count + kReduceLeaf - 1) / kReduceLeaf;
    const std::int64_t half = leaves / 2 * kReduceLeaf;
    reduce(row, first, half, waiting + columns_, to);
    reduce(row, first + half, count - half, waiting + columns_, waiting);
    combine_into<Op>(to, static_cast<const T*>(waiting), columns_);
  }

  template <typename Row>
  void reduce_leaf(const Row& row, std::int64_t first, std::int64_t count, T* to) const {
    using Line = decltype(row(first, 0));
    using Lines = const Line(&)[kRowsTogether];
    const std::int64_t used = lanes_of(count);
    std::int64_t done = -1;
    if constexpr (NanDecides<Op, T> && FillsVectors<Line, T>) {
      done = take_together(row, first, count, [&](T* lane, Lines rows) {
        return !combine_numbers_into<Op>(lane, rows, columns_);
      });
    }
    if (done < 0) {
      done = take_together(row, first, count, [&](T* lane, Lines rows) {
        combine_into<Op>(lane, rows, columns_);
        return true;
      });
    }
    for (std::int64_t i = first + done; i < first + count; ++i) {
      combine_into<Op>(lane((i - first) % kReduceLanes), row(i, 0), columns_);
    }
    for (std::int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half && i + half < used; ++i) {
        combine_into<Op>(lane(i), static_cast<const T*>(lane(i + half)), columns_);
      }
    }
    std::copy_n(lane(0), columns_, to);
  }

  // Lanes take as many rows as there are whole rounds of kRowsTogether; returns their number, or -1
  // where combine(lane, rows) is false.
  template <typename Row, typename Combine>
  std::int64_t take_together(const Row& row, std::int64_t first, std::int64_t count,
                             const Combine& combine) const {
    for (std::int64_t i = 0; i < lanes_of(count); ++i) {
      std::fill_n(lane(i), columns_, Op::template identity<T>());
    }
    constexpr std::int64_t kTogether = kRowsTogether * kReduceLanes;
    std::int64_t done = 0;
    for (; done + kTogether <= count; done += kTogether) {
      for (std::int64_t i = first + done; i < first + done + kReduceLanes; ++i) {
        const decltype(row(i, 0)) rows[kRowsTogether] = {row(i, 0), row(i + kReduceLanes, 1),
                                                         row(i + 2 * kReduceLanes, 2),
                                                         row(i + 3 * kReduceLanes, 3)};
        if (!combine(lane(i - first - done), rows)) return -1;
      }
    }
    return done;
  }

  T* lane(std::int64_t index) const { return work_ + index * columns_; }

  T* work_;
  std::int64_t columns_;
};

/// to[c] = Op over line(i, slot)[c] for all of `lines` lines, in the order of a row's reduction.
template <typename Op, typename T, typename Line>
Scratch<T> reduce_lines(std::int64_t lines, std::int64_t columns, const Line& line) {
  auto to = scratch<T>(columns);
  const auto work = scratch<T>(ColumnReduction<Op, T>::rows_of_work(lines) * columns);
  ColumnReduction<Op, T>(work.get(), columns).run(line, lines, to.get());
  return to;
}

/// Op over line(i) for i in [0, count), elements or values computed from those of several rows;
/// line(i, vector) fills in those from i on.
template <typename Op, typename Result, typename Line>
Result reduce_line(const Line& line, std::int64_t count) {
  if constexpr (std::is_arithmetic_v<Result>) {
    if (count < kReduceLanes) return reduce_few<Op, Result>(line, count);
    if (count <= kReduceLeaf) return reduce_vectors<Op, Result>(line, line, count);
    return reduce_leaves<Op, Result>(
        [&](std::int64_t first, std::int64_t size) {
          return reduce_vectors<Op, Result>(
              [&](std::int64_t i, VectorOf<Result>& to) { line(first + i, to); },
              [&](std::int64_t i) { return line(first + i); }, size);
        },
        0, count);
  } else {
    return reduce_range<Op, Result>(line, 0, count);
  }
}

/// Rows [first, first + count) of a layout.
struct RowRange {
  std::int64_t first;
  std::int64_t count;
};

/// The rows of a layout in T, reduced to one Result each. Rows that are side by side are reduced
/// together, those with pieces of some length are read leaf by leaf, and others are copied first.
template <typename Op, typename Result, typename T, typename Map>
class RowReduction {
 public:
  /// The combined values are map(element as T, index of the row).
  RowReduction(const Tensor& source, const RowLayout& layout, Map map)
      : source_(source), layout_(layout), map_(std::move(map)) {}

  /// results[i] for all rows i.
  void run(Result* results) const { run(results, {0, layout_.rows()}); }
  /// The same for some of them.
  void run(Result* results, const RowRange& range) const {
    const DType dtype = source_.dtype();
    if constexpr (kWidens<T, BFloat16>) {
      if (dtype == DType::kBF16) return run_from<BFloat16>(results, range);
    }
    // An extremum of unchanged elements is computed in their dtype.
    if constexpr (kWidens<T, float> && !(NanDecides<Op, T> && std::is_same_v<Map, Unchanged>)) {
      if (dtype == DType::kF32) return run_from<float>(results, range);
    }
    run_from<T>(results, range);
  }

 private:
  // Neighbours in columns that are reduced together: column c is row `first` + c.
  template <typename Source>
  struct Across {
    FetchedLine<T, Source> line;
    const Map* map;
    std::int64_t first;

    Result operator[](std::int64_t c) const { return (*map)(line[c], first + c); }
    template <typename Vector>
    void vector(std::int64_t c, Vector& to) const requires std::is_same_v<Map, Unchanged> {
      line.vector(c, to);
    }
  };

  // `Source` is T, or the stored type of all elements.
  template <typename Source>
  void run_from(Result* results, const RowRange& range) const {
    if (layout_.in_one_piece()) {
      if (stores<Source>()) return by_row<Source>(results, range);
      return by_leaf(results, range);
    }
    if (layout_.columns() >= kFewest) return down_columns<Source>(results, range);
    if (layout_.piece() >= kFewest) return by_leaf(results, range);
    Rows<T> rows(source_, layout_);
    for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
      results[i] = of_row(rows.row(i), rows.size(), i);
    }
  }

  template <typename Source>
  bool stores() const {
    return source_.dtype() == stored_dtype<Source>();
  }

  template <typename Source>
  Result of_row(const Source* elements, std::int64_t size, std::int64_t row) const {
    return reduce_line<Op, Result>(MappedLine<Source, T, Result, Map>{elements, map_, row}, size);
  }

  // Rows that are read in place.
  template <typename Source>
  void by_row(Result* results, const RowRange& range) const {
    const auto* data = reinterpret_cast<const Source*>(readable_bytes(source_));
    for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
      results[row] = of_row(data + layout_.offset_of(row), layout_.size(), row);
    }
  }

  void by_leaf(Result* results, const RowRange& range) const {
    const RowParts<T> parts(source_, layout_);
    T buffer[kReduceLeaf];
    for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
      const std::int64_t offset = layout_.offset_of(row);
      const auto leaf = [&](std::int64_t first, std::int64_t count) {
        return of_row(parts.part(offset, first, count, buffer), count, row);
      };
      results[row] = reduce_leaves<Op, Result>(leaf, 0, layout_.size());
    }
  }

  // As many columns as leave their lanes room in a core's cache: rows are read in long pieces.
  template <typename Source>
  void down_columns(Result* results, const RowRange& range) const {
    constexpr std::int64_t kMost = sizeof(Result) <= 8 ? 1024 : 256;
    const std::int64_t all = layout_.columns(), end = range.first + range.count;
    const std::int64_t wide = std::min({all, kMost, range.count});
    const auto work =
        scratch<Result>(ColumnReduction<Op, Result>::rows_of_work(layout_.size()) * wide);
    for (std::int64_t row = range.first; row < end;) {
      const std::int64_t columns = std::min({wide, all - row % all, end - row});
      stripe<Source>(row, layout_.offset_of(row), columns, work.get(), results);
      row += columns;
    }
  }

  // Rows [row, row + columns), side by side from element `offset` on.
  template <typename Source>
  void stripe(std::int64_t row, std::int64_t offset, std::int64_t columns, Result* work,
              Result* results) const {
    const ColumnReduction<Op, Result> reduction(work, columns);
    if (stores<Source>()) {
      const std::int64_t step = layout_.column_stride();
      const auto* data = reinterpret_cast<const Source*>(readable_bytes(source_)) + offset;
      const auto next = [&](std::int64_t i, std::int64_t) {
        return Across<Source>{{data + i * step, step}, &map_, row};
      };
      return reduction.run(next, layout_.size(), results + row);
    }
    if constexpr (std::is_same_v<Source, T>) {
      const InputLines<T> lines(source_, layout_, {row, columns});
      const auto next = [&](std::int64_t i, std::int64_t slot) {
        return Across<T>{{lines.line(i, slot), lines.step()}, &map_, row};
      };
      reduction.run(next, layout_.size(), results + row);
    }
  }

  static constexpr std::int64_t kFewest = 8;

  const Tensor& source_;
  const RowLayout& layout_;
  Map map_;
};

/// results[i] = Op over row i.
template <typename Op, typename T>
Scratch<T> reduce_with(const Tensor& self, const RowLayout& layout) {
  auto results = scratch<T>(layout.rows());
  RowReduction<Op, T, T, Unchanged>(self, layout, {}).run(results.get());
  return results;
}

/// results[i] = Op over map(element of row i as T, i).
template <typename Op, typename Result, typename T, typename Map>
Scratch<Result> reduce_mapped(const Tensor& self, const RowLayout& layout, Map map) {
  auto results = scratch<Result>(layout.rows());
  RowReduction<Op, Result, T, Map>(self, layout, std::move(map)).run(results.get());
  return results;
}

}  // namespace shardlab
