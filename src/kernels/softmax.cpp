// Softmax, its logarithm and their gradients. A row is searched for its largest number, then its
// powers are added up as they are computed, and the steps that need their sum are done during the
// powers of the next row, where the units that divide and store are idle. Rows of f16 and bf16 are
// read and written in place.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/column_lines.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/packet_functions.h"
#include "kernels/row_reduce.h"
#include "kernels/rows.h"
#include "kernels/vectors.h"

namespace shardlab {

namespace {

// values = function(values), packet by packet. As calls, all this takes twice as long.
template <typename T, PacketOf<T> (*function)(const PacketOf<T>&)>
EIGEN_ALWAYS_INLINE void map_packets_of(VectorOf<T>& values) {
  constexpr std::int64_t kWidth = Eigen::internal::packet_traits<T>::size;
  T numbers[kWidthOf<T>];
  std::memcpy(numbers, &values, sizeof(numbers));
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < kWidthOf<T>; i += kWidth) {
    Eigen::internal::pstoreu(numbers + i,
                             function(Eigen::internal::ploadu<PacketOf<T>>(numbers + i)));
  }
  std::memcpy(&values, numbers, sizeof(values));
}

// exp of numbers that are at most 0. With a finite largest number none is NaN.
template <bool finite, typename T>
EIGEN_ALWAYS_INLINE void to_powers(VectorOf<T>& shifted) {
  map_packets_of<T, finite ? packet_exp_of_number<T> : packet_exp_below<T>>(shifted);
}

// Calls run(std::bool_constant<finite>()).
template <typename Run>
auto with_finite(bool finite, const Run& run) {
  return finite ? run(std::true_type()) : run(std::false_type());
}

// A row whose powers around its largest number are added up as they are computed, in the order of
// all sums. Other work on them is beside(i, powers from i on) for whole vectors and rest(i, powers,
// count) for those at the end that fill no lanes.
template <bool finite, typename T, typename Stored, typename Row>
T sum_of_powers_in(const Stored* x, std::int64_t first, std::int64_t count, T largest, Row row) {
  Lanes<SumOp, T> lanes;
  std::int64_t i = first;
  for (; i + kReduceLanes <= first + count; i += kReduceLanes) {
    row.expect(i);
    lanes.take([=](std::int64_t lane, VectorOf<T>& powers) {
      load_vector<T>(powers, x + i + lane);
      powers -= largest;
      to_powers<finite, T>(powers);
      row.beside(i + lane, powers, kWidthOf<T>);
    });
  }
  const std::int64_t rest = first + count - i;
  if (rest > 0) {
    T numbers[kReduceLanes] = {};
    for_vectors<T>(rest, [&](std::int64_t lane, std::int64_t some) {
      VectorOf<T> powers;
      load_some<T>(powers, x + i + lane, some);
      powers -= largest;
      to_powers<finite, T>(powers);
      row.beside(i + lane, powers, some);
      store_some<T>(numbers + lane, powers, some);
    });
    lanes.take(static_cast<const T*>(numbers));
  }
  return lanes.folded();
}

template <typename T, typename Stored, typename Row>
T sum_of_powers(const Stored* x, std::int64_t count, T largest, const Row& row) {
  return with_finite(std::isfinite(largest), [&](auto finite) {
    const auto leaf = [&](std::int64_t first, std::int64_t size) {
      return sum_of_powers_in<finite.value>(x, first, size, largest, row);
    };
    return reduce_leaves<SumOp, T>(leaf, 0, count);
  });
}

// Elements of bf16 in the order of their bits as integers, of which a register holds twice as many.
// Values larger than infinity are NaN.
inline float largest_of_bits(const BFloat16* x, std::int64_t count) {
  using Words = VectorOf<std::int16_t>;
  constexpr std::int64_t kWidth = kWidthOf<std::int16_t>;
  constexpr std::int16_t kSize = 0x7FFF, kInfinity = 0x7F80;
  // Of negative numbers the larger one is nearer to 0.
  const auto turn = [](auto& bits) { bits ^= (bits >> 15) & kSize; };
  Words most = Words{} + std::numeric_limits<std::int16_t>::lowest(), largest{};
  const auto take = [&](const Words& bits) {
    Words key = bits;
    turn(key);
    const Words size = bits & kSize;
    most = most > key ? most : key;
    largest = largest > size ? largest : size;
  };
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Words bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    take(bits);
  }
  if (i < count) {
    Words bits = Words{} + std::int16_t(0xFF80);  // -inf
    std::memcpy(&bits, x + i, static_cast<std::size_t>(count - i) * sizeof(*x));
    take(bits);
  }
  const auto folded = [](const Words& from) {
    std::int16_t lanes[kWidth];
    std::memcpy(lanes, &from, sizeof(lanes));
#pragma GCC unroll 8
    for (std::int64_t half = kWidth / 2; half > 0; half /= 2) {
      for (std::int64_t k = 0; k < half; ++k) lanes[k] = std::max(lanes[k], lanes[k + half]);
    }
    return lanes[0];
  };
  std::int16_t key = folded(most);
  const std::int16_t size = folded(largest);
  if (size > kInfinity) return std::numeric_limits<float>::quiet_NaN();
  turn(key);
  const auto bits = static_cast<std::uint16_t>(key);
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

template <typename T, typename Stored>
T largest_of(const Stored* x, std::int64_t count) {
  if constexpr (std::is_same_v<Stored, BFloat16>) return largest_of_bits(x, count);
  constexpr Unchanged kUnchanged;
  return reduce_line<MaxOp, T>(MappedLine<Stored, T, T, Unchanged>{x, kUnchanged, 0}, count);
}

// A row whose powers are computed and must be divided by their sum.
template <typename T, typename Stored>
struct SoftmaxRow {
  const T* powers = nullptr;
  Stored* to = nullptr;
  T total = T(1);

  EIGEN_ALWAYS_INLINE void finish(std::int64_t i, std::int64_t count) const {
    VectorOf<T> value;
    load_some<T>(value, powers + i, count);
    value /= total;
    if (count == kWidthOf<T>) return store_vector<T>(to + i, value);
    store_some<T>(to + i, value, count);
  }
  EIGEN_ALWAYS_INLINE void keep(std::int64_t i, std::int64_t count, const VectorOf<T>& values,
                                T* kept) const {
    store_some<T>(kept + i, values, count);
  }
  static SoftmaxRow make(const Stored*, Stored* to, const T* kept, T, T total) {
    return {kept, to, total};
  }
};

// A row from which its largest number and the logarithm of the sum must be taken.
template <typename T, typename Stored>
struct LogSoftmaxRow {
  const Stored* x = nullptr;
  Stored* to = nullptr;
  T largest = T(0);
  T log_total = T(0);

  EIGEN_ALWAYS_INLINE void finish(std::int64_t i, std::int64_t count) const {
    VectorOf<T> value;
    load_some<T>(value, x + i, count);
    value = value - largest - log_total;
    store_some<T>(to + i, value, count);
  }
  EIGEN_ALWAYS_INLINE void keep(std::int64_t, std::int64_t, const VectorOf<T>&, T*) const {}
  static LogSoftmaxRow make(const Stored* x, Stored* to, const T*, T largest, T total) {
    return {x, to, largest, std::log(total)};
  }
};

// The work done during the powers of a row.
template <typename Row, typename T, typename Stored>
struct Beside {
  Row before;
  T* kept;
  const Stored* next;  // null: short rows, which processors fetch ahead by themselves
  Stored* next_to;

  EIGEN_ALWAYS_INLINE void expect(std::int64_t i) const {
    if (next != nullptr) expect_lines<kReduceLanes>(next + i, next_to + i);
  }
  EIGEN_ALWAYS_INLINE void beside(std::int64_t i, const VectorOf<T>& powers,
                                  std::int64_t count) const {
    if (before.to != nullptr) before.finish(i, count);
    before.keep(i, count, powers, kept);
  }
};

// Rows one after the other: each is finished while the next one is read.
template <template <typename, typename> typename RowOf, typename T, typename Stored>
class PipelinedRows {
 public:
  explicit PipelinedRows(std::int64_t size) : size_(size) {
    if constexpr (!std::is_same_v<T, Stored>) kept_ = scratch<T>(2 * size);
  }

  void add(const Stored* x, Stored* to) {
    T* const kept = place_of(to);
    const T largest = largest_of<T>(x, size_);
    constexpr std::int64_t kLong = 4096 / sizeof(Stored);
    const Beside<Row, T, Stored> beside{unfinished_, kept, size_ > kLong ? x + size_ : nullptr,
                                        to + size_};
    unfinished_ = Row::make(x, to, kept, largest, sum_of_powers<T>(x, size_, largest, beside));
  }
  // After the last one.
  void finish() {
    if (unfinished_.to == nullptr) return;
    for_vectors<T>(size_,
                   [this](std::int64_t i, std::int64_t some) { unfinished_.finish(i, some); });
    unfinished_ = {};
  }

 private:
  using Row = RowOf<T, Stored>;

  // The memory of the powers: the row's own place, or one that the next row does not use.
  T* place_of(Stored* to) {
    if constexpr (std::is_same_v<T, Stored>) {
      return to;
    } else {
      odd_ = !odd_;
      return kept_.get() + (odd_ ? size_ : 0);
    }
  }

  std::int64_t size_;
  Scratch<T> kept_;
  bool odd_ = false;
  Row unfinished_;
};

// to = exp(x - largest) / totals for elements of one line, past the caches if `past`.
template <bool finite, typename T>
void parts_of_line(const FetchedLine<T>& x, const T* largest, const T* totals, T* to,
                   std::int64_t count, bool past) {
  for_vectors<T>(count, [=](std::int64_t i, std::int64_t some) {
    if (past) {
      __builtin_prefetch(x.data + x.step + i, 0, 2);
    } else {
      expect_line(x.data + x.step, to + count, i);
    }
    VectorOf<T> powers, other;
    load_some<T>(powers, x.data + i, some);
    load_some<T>(other, largest + i, some);
    powers -= other;
    to_powers<finite, T>(powers);
    load_some<T>(other, totals + i, some);
    powers /= other;
    if (past && some == kWidthOf<T>) return write_past_caches(to + i, &powers, sizeof(powers));
    store_some<T>(to + i, powers, some);
  });
}

// Column-wise maxima.
template <typename T>
struct LargestOfLines {
  Scratch<T> values;
  bool finite;

  explicit LargestOfLines(const InputLines<T>& x)
      : values(reduce_lines<MaxOp, T>(x.lines(), x.columns(),
                                      [&](std::int64_t i, std::int64_t slot) {
                                        return FetchedLine<T>{x.line(i, slot), x.step()};
                                      })),
        finite(std::all_of(values.get(), values.get() + x.columns(),
                           [](T value) { return std::isfinite(value); })) {}
};

// exp(x - largest) for elements of one line, computed where they are added up.
template <bool finite, typename T>
struct PowersOfLine {
  FetchedLine<T> x;
  const T* largest;

  T operator[](std::int64_t c) const {
    VectorOf<T> powers = VectorOf<T>{} + (x[c] - largest[c]);
    to_powers<finite, T>(powers);
    return powers[0];
  }
  EIGEN_ALWAYS_INLINE void vector(std::int64_t c, VectorOf<T>& powers) const {
    VectorOf<T> most;
    x.vector(c, powers);
    load_vector<T>(most, largest + c);
    powers -= most;
    to_powers<finite, T>(powers);
  }
};

// The sum of the powers of each column.
template <bool finite, typename T>
Scratch<T> sums_of_powers(const InputLines<T>& x, const LargestOfLines<T>& largest) {
  return reduce_lines<SumOp, T>(x.lines(), x.columns(), [&](std::int64_t i, std::int64_t slot) {
    return PowersOfLine<finite, T>{{x.line(i, slot), x.step()}, largest.values.get()};
  });
}

// Lines are read three times and written once: powers are computed again where they are divided,
// which takes less than writing them and reading them again.
struct SoftmaxColumns {
  template <typename T>
  static void down(const InputLines<T>& x, const OutputLines<T>& to) {
    const LargestOfLines<T> largest(x);
    with_finite(largest.finite, [&](auto finite) {
      const auto totals = sums_of_powers<finite.value>(x, largest);
      const bool past = to.writes_past_caches();
      for (std::int64_t i = 0; i < x.lines(); ++i) {
        parts_of_line<finite.value>(FetchedLine<T>{x.line(i), x.step()}, largest.values.get(),
                                    totals.get(), to.line(i), x.columns(), past);
      }
      if (past) end_writes_past_caches();
    });
  }
};

struct LogSoftmaxColumns {
  template <typename T>
  static void down(const InputLines<T>& x, const OutputLines<T>& to) {
    const std::int64_t columns = x.columns();
    const LargestOfLines<T> largest(x);
    const auto totals = with_finite(
        largest.finite, [&](auto finite) { return sums_of_powers<finite.value>(x, largest); });
    for (std::int64_t c = 0; c < columns; ++c) totals[c] = std::log(totals[c]);
    for (std::int64_t i = 0; i < x.lines(); ++i) {
      const T* const from = x.line(i);
      T* const line = to.line(i);
      const T *const most = largest.values.get(), *const total = totals.get();
#pragma GCC ivdep
      for (std::int64_t c = 0; c < columns; ++c) line[c] = from[c] - most[c] - total[c];
    }
  }
};

// (self, dim, half_to_float)
template <template <typename, typename> typename Row, typename Columns, typename T>
void softmax(const Tensor& out, const Tensor& self, const DimMask& dim) {
  if (map_columns<Columns, T>(out, dim, self)) return;
  const auto where_they_lie = [&](auto element) {
    using Stored = decltype(element);
    const RowLayout to(out, dim), from(self, dim);
    auto* const target = reinterpret_cast<Stored*>(writable_bytes(out));
    const auto* const source = reinterpret_cast<const Stored*>(readable_bytes(self));
    PipelinedRows<Row, T, Stored> rows(from.size());
    for (std::int64_t i = 0; i < from.rows(); ++i) {
      rows.add(source + from.offset_of(i), target + to.offset_of(i));
    }
    rows.finish();
  };
  if (with_stored_rows<T>({&self, &out}, dim, where_they_lie)) return;
  OutputRows<T> output(out, dim);
  Rows<T> input(self, dim);
  PipelinedRows<Row, T, T> rows(input.size());
  for (std::int64_t i = 0; i < input.count(); ++i) {
    output.write(i, [&](T* to) {
      rows.add(input.row(i), to);
      rows.finish();
    });
  }
  output.store();
}

template <template <typename, typename> typename Row, typename Columns>
void softmax_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  if (self.numel() == 0) return;  // of integers, too
  with_compute_type<kRealKind>(self.dtype(), [&](auto type) {
    softmax<Row, Columns, decltype(type)>(call.outputs[0], self,
                                          single_dim(int_arg(call, 1), self));
  });
}

// Two lines, element by element.
template <typename T, typename Stored>
struct ProductLine {
  const Stored *a, *b;

  T operator()(std::int64_t i) const { return widened<T>(a[i]) * widened<T>(b[i]); }
  void operator()(std::int64_t i, VectorOf<T>& to) const {
    VectorOf<T> other;
    load_vector<T>(to, a + i);
    load_vector<T>(other, b + i);
    to *= other;
  }
  T operator[](std::int64_t c) const { return (*this)(c); }
};

// Gradients from those of the result and the result itself, once something was added up over the
// row.
struct SoftmaxGrad {
  template <typename T, typename Stored>
  static T sum(const Stored* grad, const Stored* y, std::int64_t count) {
    return reduce_line<SumOp, T>(ProductLine<T, Stored>{grad, y}, count);
  }
  template <typename T>
  static auto line_of(const T* grad, const T* y) {
    return ProductLine<T, T>{grad, y};
  }
  template <typename T>
  EIGEN_ALWAYS_INLINE static void finish(VectorOf<T>& grad, VectorOf<T>& y,
                                         const VectorOf<T>& sum) {
    grad = (grad - sum) * y;
  }
};

struct LogSoftmaxGrad {
  template <typename T, typename Stored>
  static T sum(const Stored* grad, const Stored*, std::int64_t count) {
    constexpr Unchanged kUnchanged;
    return reduce_line<SumOp, T>(MappedLine<Stored, T, T, Unchanged>{grad, kUnchanged, 0}, count);
  }
  template <typename T>
  static auto line_of(const T* grad, const T*) {
    return grad;
  }
  template <typename T>
  EIGEN_ALWAYS_INLINE static void finish(VectorOf<T>& grad, VectorOf<T>& y,
                                         const VectorOf<T>& sum) {
    map_packets_of<T, packet_exp<T>>(y);
    grad -= y * sum;
  }
};

template <typename Grad>
struct GradRow {
  template <typename T, typename Stored>
  static void apply(const Stored* grad, const Stored* y, Stored* to, std::int64_t count) {
    const VectorOf<T> sum = VectorOf<T>{} + Grad::template sum<T>(grad, y, count);
    for_vectors<T>(count, [&](std::int64_t i, std::int64_t some) {
      VectorOf<T> slope, value;
      load_some<T>(slope, grad + i, some);
      load_some<T>(value, y + i, some);
      Grad::template finish<T>(slope, value, sum);
      store_some<T>(to + i, slope, some);
    });
  }

  template <typename T>
  static void down(const InputLines<T>& grad, const InputLines<T>& y, const OutputLines<T>& to) {
    const std::int64_t columns = grad.columns();
    const auto line_of = [&](std::int64_t i, std::int64_t slot) {
      return Grad::template line_of<T>(grad.line(i, slot), y.line(i, slot));
    };
    const auto sums = reduce_lines<SumOp, T>(grad.lines(), columns, line_of);
    for (std::int64_t k = 0; k < grad.lines(); ++k) {
      const T *const slopes = grad.line(k), *const values = y.line(k);
      T* const line = to.line(k);
      for_vectors<T>(columns, [&](std::int64_t i, std::int64_t some) {
        VectorOf<T> slope, value, sum;
        load_some<T>(slope, slopes + i, some);
        load_some<T>(value, values + i, some);
        load_some<T>(sum, sums.get() + i, some);
        Grad::template finish<T>(slope, value, sum);
        store_some<T>(line + i, slope, some);
      });
    }
  }
};

// (grad_output, output, dim, input_dtype)
template <typename Grad>
void softmax_backward_kernel(const KernelCall& call) {
  const Tensor &grad = tensor_arg(call, 0), &output = tensor_arg(call, 1), &out = call.outputs[0];
  with_compute_type<kRealKind>(grad.dtype(), [&](auto type) {
    using T = decltype(type);
    const DimMask dim = single_dim(int_arg(call, 2), grad);
    if (map_columns<GradRow<Grad>, T>(out, dim, grad, output)) return;
    const auto where_they_lie = [&](auto element) {
      using Stored = decltype(element);
      const RowLayout to(out, dim), slopes(grad, dim), values(output, dim);
      auto* const target = reinterpret_cast<Stored*>(writable_bytes(out));
      const auto* const slope = reinterpret_cast<const Stored*>(readable_bytes(grad));
      const auto* const value = reinterpret_cast<const Stored*>(readable_bytes(output));
      for (std::int64_t i = 0; i < to.rows(); ++i) {
        GradRow<Grad>::template apply<T>(slope + slopes.offset_of(i), value + values.offset_of(i),
                                         target + to.offset_of(i), to.size());
      }
    };
    if (with_stored_rows<T>({&grad, &output, &out}, dim, where_they_lie)) return;
    OutputRows<T> to(out, dim);
    Rows<T> grads(grad, dim), outputs(output, dim);
    for (std::int64_t i = 0; i < grads.count(); ++i) {
      const T *slope = grads.row(i), *y = outputs.row(i);
      to.write(i, [&](T* row) { GradRow<Grad>::template apply<T>(slope, y, row, grads.size()); });
    }
    to.store();
  });
}

}  // namespace

void add_softmax_kernels(KernelTable& table) {
  table.set(KernelId::kSoftmax, softmax_kernel<SoftmaxRow, SoftmaxColumns>);
  table.set(KernelId::kLogSoftmax, softmax_kernel<LogSoftmaxRow, LogSoftmaxColumns>);
  table.set(KernelId::kSoftmaxBackward, softmax_backward_kernel<SoftmaxGrad>);
  table.set(KernelId::kLogSoftmaxBackward, softmax_backward_kernel<LogSoftmaxGrad>);
}

}  // namespace shardlab
