// Variance and standard deviation: in f64, rounded once. Mean and squared distances from it are
// found in one pass: within a leaf of kReduceLeaf elements distances are taken from its first
// element, which is near enough: the part that cancels later is at most as many times the rest as a
// leaf has elements. Leaves meet pairwise, in the order of all reductions (row_reduce.h), so that
// results do not depend on the layout of a tensor.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>

#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

// NaN, in both parts of a complex number.
template <typename T>
T no_number() {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if constexpr (std::is_same_v<T, double>) {
    return kNan;
  } else {
    return {kNan, kNan};
  }
}

// Of some elements; T is double or std::complex<double>. Of none the mean is NaN.
template <typename T>
struct Spread {
  double count = 0;
  T mean = no_number<T>();
  double squares = 0;  // of the distances from the mean, added up
};

// Two groups of elements as one.
struct SpreadOp {
  template <typename T>
  static Spread<T> combine(const Spread<T>& a, const Spread<T>& b) {
    const double count = a.count + b.count, share = b.count / count;
    const T apart = b.mean - a.mean;
    return {count, a.mean + apart * share,
            a.squares + b.squares + squared_magnitude(apart) * (a.count * share)};
  }
};

// The sums of a leaf: distances from its first element, and their squares.
template <typename T>
struct LeafSums {
  T sum;
  double squares;

  Spread<T> spread(T first, double count) const {
    const T shift = sum / count;
    const double squares_left = squares - squared_magnitude(shift) * count;
    return {count, first + shift, squares_left < 0 ? 0 : squares_left};
  }
};

// Fewer than sums have: two of each stay in registers.
constexpr std::int64_t kSpreadLanes = 16;

// Prefetches the data two pages behind this element. Processors fetch ahead by themselves within a
// page only.
template <typename Source>
void expect_ahead(const Source* x) {
  __builtin_prefetch(reinterpret_cast<const std::byte*>(x) + 8192);
}

// Of a leaf that is in one piece.
template <typename T, typename Source>
Spread<T> leaf_spread(const Source* x, std::int64_t count) {
  if (count == 0) return {};
  const T first = widened<T>(x[0]);
  T rest[kSpreadLanes] = {};
  const std::int64_t whole = count - count % kSpreadLanes;
  for (std::int64_t i = whole; i < count; ++i) rest[i - whole] = widened<T>(x[i]) - first;
  const auto size = static_cast<double>(count);
  if constexpr (std::is_same_v<T, double>) {
    Lanes<SumOp, double, kSpreadLanes> sums, squares;
    std::array<VectorOf<double>, kSpreadLanes / kWidthOf<double>> apart;
    const auto take = [&](const auto& load) {
      sums.take([&](std::int64_t lane, VectorOf<double>& to) {
        load(lane, to);
        apart[static_cast<std::size_t>(lane / kWidthOf<double>)] = to;
      });
      squares.take([&](std::int64_t lane, VectorOf<double>& to) {
        to = apart[static_cast<std::size_t>(lane / kWidthOf<double>)];
        to *= to;
      });
    };
    for (std::int64_t i = 0; i < whole; i += kSpreadLanes) {
      expect_ahead(x + i);
      take([=](std::int64_t lane, VectorOf<double>& to) {
        load_vector<double>(to, x + i + lane);
        to -= first;
      });
    }
    if (whole < count) {
      take([&](std::int64_t lane, VectorOf<double>& to) {
        load_vector<double>(to, static_cast<const double*>(rest) + lane);
      });
    }
    return LeafSums<T>{sums.folded(), squares.folded()}.spread(first, size);
  } else {
    T sums[kSpreadLanes] = {};
    double squares[kSpreadLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const T apart = i < whole ? widened<T>(x[i]) - first : rest[i - whole];
      sums[i % kSpreadLanes] += apart;
      squares[i % kSpreadLanes] += squared_magnitude(apart);
    }
    for (std::int64_t half = kSpreadLanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) {
        sums[i] += sums[i + half];
        squares[i] += squares[i + half];
      }
    }
    return LeafSums<T>{sums[0], squares[0]}.spread(first, size);
  }
}

// Columns that are side by side: line(i, slot) holds element i of each, of kLinesKept slots the
// last line is still valid.
template <typename T, typename Line>
class SpreadDown {
 public:
  // `ahead`: distance from each element to that of the next line, 0 where lines are converted.
  SpreadDown(const Line& line, std::int64_t columns, std::int64_t ahead)
      : line_(line),
        columns_(columns),
        ahead_(ahead),
        firsts_(scratch<T>(columns)),
        sums_(scratch<T>(kSpreadLanes * columns)),
        squares_(scratch<double>(kSpreadLanes * columns)) {}

  // Column c's spread in spreads[c].
  void run(std::int64_t first, std::int64_t count, Spread<T>* spreads) const {
    if (count <= kReduceLeaf) return leaf(first, count, spreads);
    const std::int64_t leaves = (count + kReduceLeaf - 1) / kReduceLeaf;
    const std::int64_t half = leaves / 2 * kReduceLeaf;
    const auto upper = scratch<Spread<T>>(columns_);
    run(first, half, spreads);
    run(first + half, count - half, upper.get());
    for (std::int64_t c = 0; c < columns_; ++c) {
      spreads[c] = SpreadOp::combine(spreads[c], upper[c]);
    }
  }

 private:
  using Source = std::remove_cvref_t<decltype(*std::declval<Line>()(0, 0))>;
  template <std::size_t count>
  using Lines = std::array<const Source*, count>;

  // One lane takes in the elements of all lines, so that its sums are read and written once.
  template <std::size_t count>
  void add_lines(std::int64_t lane, const Lines<count>& lines) const {
    constexpr std::int64_t kStep = 64 / sizeof(Source);
    T* const sums = sums_.get() + lane * columns_;
    double* const squares = squares_.get() + lane * columns_;
    std::int64_t c = 0;
    for (; c + kStep <= columns_; c += kStep) {
      for (const Source* line : lines) __builtin_prefetch(line + c + ahead_);
      add_part(sums, squares, lines, c, kStep);
    }
    add_part(sums, squares, lines, c, columns_ - c);
  }
  template <std::size_t count>
  EIGEN_ALWAYS_INLINE void add_part(T* sums, double* squares, const Lines<count>& lines,
                                    std::int64_t begin, std::int64_t size) const {
    const T* const firsts = firsts_.get();
#pragma GCC ivdep
    for (std::int64_t c = begin; c < begin + size; ++c) {
      T sum = sums[c];
      double square = squares[c];
#pragma GCC unroll 8
      for (std::size_t k = 0; k < count; ++k) {
        const T apart = widened<T>(lines[k][c]) - firsts[c];
        sum += apart;
        square += squared_magnitude(apart);
      }
      sums[c] = sum;
      squares[c] = square;
    }
  }

  // Lines from i on, as long as each of lanes takes so many at once.
  template <std::size_t count>
  void add_rounds(std::int64_t& i, std::int64_t end) const {
    constexpr std::int64_t kRound = static_cast<std::int64_t>(count) * kSpreadLanes;
    for (; i + kRound <= end; i += kRound) {
      for (std::int64_t lane = 0; lane < kSpreadLanes; ++lane) {
        Lines<count> lines;
        for (std::size_t k = 0; k < count; ++k) {
          const auto slot = static_cast<std::int64_t>(k);
          lines[k] = line_(i + lane + slot * kSpreadLanes, slot);
        }
        add_lines(lane, lines);
      }
    }
  }

  void leaf(std::int64_t first, std::int64_t count, Spread<T>* spreads) const {
    if (count == 0) {
      std::fill_n(spreads, columns_, Spread<T>{});
      return;
    }
    const auto start = line_(first, 0);
    for (std::int64_t c = 0; c < columns_; ++c) firsts_[c] = widened<T>(start[c]);
    std::fill_n(sums_.get(), kSpreadLanes * columns_, T(0));
    std::fill_n(squares_.get(), kSpreadLanes * columns_, 0.0);
    std::int64_t i = first;
    add_rounds<kLinesKept>(i, first + count);
    for (; i < first + count; ++i) add_lines<1>((i - first) % kSpreadLanes, {line_(i, 0)});
    for (std::int64_t half = kSpreadLanes / 2 * columns_; half >= columns_; half /= 2) {
      for (std::int64_t c = 0; c < half; ++c) {
        sums_[c] += sums_[c + half];
        squares_[c] += squares_[c + half];
      }
    }
    for (std::int64_t c = 0; c < columns_; ++c) {
      spreads[c] =
          LeafSums<T>{sums_[c], squares_[c]}.spread(firsts_[c], static_cast<double>(count));
    }
  }

  const Line& line_;
  std::int64_t columns_, ahead_;
  Scratch<T> firsts_, sums_;
  Scratch<double> squares_;
};

// The spreads of all rows of a layout.
template <typename T>
class RowSpreads {
 public:
  RowSpreads(const Tensor& source, const RowLayout& layout)
      : source_(source), layout_(layout), spreads_(scratch<Spread<T>>(layout.rows())) {
    const DType dtype = source.dtype();
    if (std::is_same_v<T, double> && dtype == DType::kF32) {
      run_from<std::conditional_t<std::is_same_v<T, double>, float, T>>();
    } else {
      run_from<T>();
    }
  }
  const Spread<T>& operator[](std::int64_t row) const { return spreads_[row]; }

 private:
  // `Source`: the type that is read in place; elements of other dtypes are converted to T first.
  template <typename Source>
  void run_from() {
    constexpr std::int64_t kFewest = 8;
    if (!layout_.in_one_piece() && layout_.columns() >= kFewest) return down_columns<Source>();
    if (layout_.in_one_piece() && source_.dtype() == dtype_of<Source>()) {
      const auto* data = reinterpret_cast<const Source*>(readable_bytes(source_));
      return by_leaf([=, this](std::int64_t row, std::int64_t first, std::int64_t) {
        return data + layout_.offset_of(row) + first;
      });
    }
    if (layout_.in_one_piece() || layout_.piece() >= kFewest) {
      const RowParts<T> parts(source_, layout_);
      T buffer[kReduceLeaf];
      return by_leaf([&](std::int64_t row, std::int64_t first, std::int64_t count) {
        return parts.part(layout_.offset_of(row), first, count, buffer);
      });
    }
    Rows<T> rows(source_, layout_);
    by_leaf(
        [&](std::int64_t row, std::int64_t first, std::int64_t) { return rows.row(row) + first; });
  }

  // place(row, first, count): the present place of these elements.
  template <typename Place>
  void by_leaf(const Place& place) {
    for (std::int64_t row = 0; row < layout_.rows(); ++row) {
      const auto leaf = [&](std::int64_t first, std::int64_t count) {
        return leaf_spread<T>(place(row, first, count), count);
      };
      spreads_[row] = reduce_leaves<SpreadOp, Spread<T>>(leaf, 0, layout_.size());
    }
  }

  // As many columns as leave their lanes room in a core's cache.
  template <typename Source>
  void down_columns() {
    constexpr std::int64_t kMost = 1024;
    const std::int64_t all = layout_.columns();
    for (std::int64_t row = 0; row < layout_.rows();) {
      const std::int64_t columns = std::min(kMost, all - row % all);
      stripe<Source>(row, columns);
      row += columns;
    }
  }

  template <typename Source>
  void stripe(std::int64_t row, std::int64_t columns) {
    Spread<T>* const to = spreads_.get() + row;
    if (source_.dtype() == dtype_of<Source>()) {
      const auto* data =
          reinterpret_cast<const Source*>(readable_bytes(source_)) + layout_.offset_of(row);
      const std::int64_t step = layout_.column_stride();
      const auto line = [=](std::int64_t i, std::int64_t) { return data + i * step; };
      return SpreadDown<T, decltype(line)>(line, columns, step).run(0, layout_.size(), to);
    }
    const InputLines<T> lines(source_, layout_, {row, columns});
    const auto line = [&](std::int64_t i, std::int64_t slot) { return lines.line(i, slot); };
    SpreadDown<T, decltype(line)>(line, columns, 0).run(0, layout_.size(), to);
  }

  const Tensor& source_;
  const RowLayout& layout_;
  Scratch<Spread<T>> spreads_;
};

enum class Measure { kVariance, kDeviation };

template <Measure measure>
void variance_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const double correction = correction_of(call);
  const RowLayout layout(self, reduced_dims(call, 1, self));
  with_wide_type(self, [&](auto type) {
    using T = decltype(type);
    const RowSpreads<T> spreads(self, layout);
    const std::int64_t count = layout.size();
    const double parts = std::max(static_cast<double>(count) - correction, 0.0);
    const auto means = scratch<T>(layout.rows());
    const auto results = scratch<double>(layout.rows());
    for (std::int64_t i = 0; i < layout.rows(); ++i) {
      means[i] = spreads[i].mean;
      results[i] = spreads[i].squares / parts;
      if (measure == Measure::kDeviation) results[i] = std::sqrt(results[i]);
    }
    store_row_major(call.outputs[0], results.get(), DType::kF64);
    if (call.outputs.size() > 1) store_row_major(call.outputs[1], means.get(), dtype_of<T>());
  });
}

}  // namespace

void add_variance_kernels(KernelTable& table) {
  table.set(KernelId::kVar, variance_kernel<Measure::kVariance>);
  table.set(KernelId::kVarMean, variance_kernel<Measure::kVariance>);
  table.set(KernelId::kStd, variance_kernel<Measure::kDeviation>);
  table.set(KernelId::kStdMean, variance_kernel<Measure::kDeviation>);
}

}  // namespace shardlab
