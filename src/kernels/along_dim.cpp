// Ops along one dim that keep it: softmax and its gradients, running sums, products and extrema.
#include <algorithm>
#include <complex>

#include "kernels/column_lines.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/rows.h"
#include "kernels/running.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

// to = exp(x - largest), which never overflows; `to` may be x.
template <typename T>
void exp_shifted(const T* x, T* to, std::int64_t count, T largest) {
  using namespace Eigen::internal;
  constexpr std::int64_t kWidth = packet_traits<T>::size;
  const auto shifted_exp = [largest](const PacketOf<T>& values) {
    return packet_exp_below<T>(psub(values, pset1<PacketOf<T>>(largest)));
  };
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    expect_line(x + count, to + count, i);
    pstoreu(to + i, shifted_exp(ploadu<PacketOf<T>>(x + i)));
  }
  map_packets(x + i, to + i, count - i, shifted_exp);
}

// A row whose exponentials still have to be divided by their sum.
template <typename T>
struct OwedRow {
  T* to = nullptr;
  T total = T(1);
  std::int64_t count = 0;

  void divide_from(std::int64_t first) const {
    for (std::int64_t i = first; i < count; ++i) to[i] /= total;
  }
};

// The same of a line, of which each element has a largest of its own.
template <typename T>
void exp_of_line(const T* x, const T* largest, T* to, std::int64_t count) {
  using Packet = PacketOf<T>;
  constexpr std::int64_t kStep = 64 / sizeof(T);
  for (std::int64_t i = 0; i < count; i += kStep) {
    expect_line(x + count, to + count, i);
    map_packet_pairs(x + i, largest + i, to + i, std::min(kStep, count - i),
                     [](const Packet& a, const Packet& b) {
                       return packet_exp_below<T>(Eigen::internal::psub(a, b));
                     });
  }
}

template <typename T>
Scratch<T> largest_of_lines(const InputLines<T>& x) {
  return reduce_lines<MaxOp, T>(x.lines(), x.columns(),
                                [&](std::int64_t i, std::int64_t slot) { return x.line(i, slot); });
}

// Rows are divided beside the exponentials of the next one, where the unit that divides is idle.
struct SoftmaxRow {
  template <typename T>
  static void apply(const T* x, T* to, std::int64_t count) {
    next(x, to, count, OwedRow<T>{}).divide_from(0);
  }

  template <typename T>
  static OwedRow<T> next(const T* x, T* to, std::int64_t count, const OwedRow<T>& before) {
    using namespace Eigen::internal;
    constexpr std::int64_t kWidth = packet_traits<T>::size;
    const T largest = reduce_row<MaxOp>(x, count);
    const std::int64_t together = std::min(count, before.count) / kWidth * kWidth;
    for (std::int64_t i = 0; i < together; i += kWidth) {
      expect_line(x + count, to + count, i);
      const auto shifted = psub(ploadu<PacketOf<T>>(x + i), pset1<PacketOf<T>>(largest));
      const auto divided =
          pdiv(ploadu<PacketOf<T>>(before.to + i), pset1<PacketOf<T>>(before.total));
      pstoreu(before.to + i, divided);
      pstoreu(to + i, packet_exp_below<T>(shifted));
    }
    before.divide_from(together);
    exp_shifted(x + together, to + together, count - together, largest);
    return {to, reduce_row<SumOp>(static_cast<const T*>(to), count), count};
  }

  template <typename T>
  static void down(const InputLines<T>& x, const OutputLines<T>& to) {
    const std::int64_t columns = x.columns();
    const auto largest = largest_of_lines(x);
    for (std::int64_t i = 0; i < x.lines(); ++i) {
      exp_of_line<T>(x.line(i), largest.get(), to.line(i), columns);
    }
    const auto line_of = [&](std::int64_t i, std::int64_t) -> const T* { return to.line(i); };
    const auto totals = reduce_lines<SumOp, T>(x.lines(), columns, line_of);
    for (std::int64_t i = 0; i < x.lines(); ++i) {
      T* const line = to.line(i);
      const T* const total = totals.get();
#pragma GCC ivdep
      for (std::int64_t c = 0; c < columns; ++c) line[c] /= total[c];
    }
  }
};

struct LogSoftmaxRow {
  template <typename T>
  static void apply(const T* x, T* to, std::int64_t count) {
    const T largest = reduce_row<MaxOp>(x, count);
    exp_shifted(x, to, count, largest);
    const T log_total = std::log(reduce_row<SumOp>(static_cast<const T*>(to), count));
    for (std::int64_t i = 0; i < count; ++i) to[i] = x[i] - largest - log_total;
  }

  template <typename T>
  static void down(const InputLines<T>& x, const OutputLines<T>& to) {
    const std::int64_t columns = x.columns();
    const auto largest = largest_of_lines(x);
    const auto powers = scratch<T>(kRowsTogether * columns);
    const auto power = [&](std::int64_t i, std::int64_t slot) -> const T* {
      T* const line = powers.get() + slot * columns;
      exp_of_line<T>(x.line(i, slot), largest.get(), line, columns);
      return line;
    };
    const auto totals = reduce_lines<SumOp, T>(x.lines(), columns, power);
    for (std::int64_t c = 0; c < columns; ++c) totals[c] = std::log(totals[c]);
    for (std::int64_t i = 0; i < x.lines(); ++i) {
      const T* const from = x.line(i);
      T* const line = to.line(i);
      const T *const most = largest.get(), *const total = totals.get();
#pragma GCC ivdep
      for (std::int64_t c = 0; c < columns; ++c) line[c] = from[c] - most[c] - total[c];
    }
  }
};

struct SoftmaxGradRow {
  template <typename T>
  static void apply(const T* grad, const T* y, T* to, std::int64_t count) {
    const auto product = [=](std::int64_t i) { return grad[i] * y[i]; };
    const T dot = reduce_range<SumOp, T>(product, 0, count);
    for (std::int64_t i = 0; i < count; ++i) to[i] = (grad[i] - dot) * y[i];
  }

  template <typename T>
  static void down(const InputLines<T>& grad, const InputLines<T>& y, const OutputLines<T>& to) {
    const auto product = [&](std::int64_t i, std::int64_t slot) {
      return ProductLine<T>{grad.line(i, slot), y.line(i, slot)};
    };
    const std::int64_t columns = grad.columns();
    const auto dots = reduce_lines<SumOp, T>(grad.lines(), columns, product);
    for (std::int64_t i = 0; i < grad.lines(); ++i) {
      const T *const slope = grad.line(i), *const share = y.line(i);
      const T* const dot = dots.get();
      T* const line = to.line(i);
#pragma GCC ivdep
      for (std::int64_t c = 0; c < columns; ++c) line[c] = (slope[c] - dot[c]) * share[c];
    }
  }

 private:
  template <typename T>
  struct ProductLine {
    const T *a, *b;
    T operator[](std::int64_t c) const { return a[c] * b[c]; }
  };
};

struct LogSoftmaxGradRow {
  template <typename T>
  static void apply(const T* grad, const T* y, T* to, std::int64_t count) {
    const T total = reduce_row<SumOp>(grad, count);
    Vectorized<element::Exp>::map(y, to, count);
    for (std::int64_t i = 0; i < count; ++i) to[i] = grad[i] - to[i] * total;
  }

  template <typename T>
  static void down(const InputLines<T>& grad, const InputLines<T>& y, const OutputLines<T>& to) {
    const std::int64_t columns = grad.columns();
    const auto line_of = [&](std::int64_t i, std::int64_t slot) { return grad.line(i, slot); };
    const auto totals = reduce_lines<SumOp, T>(grad.lines(), columns, line_of);
    for (std::int64_t i = 0; i < grad.lines(); ++i) {
      const T* const slope = grad.line(i);
      T* const line = to.line(i);
      const T* const total = totals.get();
      Vectorized<element::Exp>::map(y.line(i), line, columns);
#pragma GCC ivdep
      for (std::int64_t c = 0; c < columns; ++c) line[c] = slope[c] - line[c] * total[c];
    }
  }
};

// Sums and products so far; f32 adds up and multiplies in f64, as the reference does. Each waits
// for the one before it, so that rows go beside each other.
template <class Op>
struct RunningRow {
  template <typename T>
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
  static constexpr std::int64_t kTogether = 4;

  template <typename T>
  static void apply(const T* x, T* to, std::int64_t count) {
    Wide<T> last = Op::template identity<Wide<T>>();
    for (std::int64_t i = 0; i < count; ++i) {
      last = Op::combine(last, Wide<T>(x[i]));
      to[i] = static_cast<T>(last);
    }
  }

  template <typename T>
  static void beside(const T* const (&x)[kTogether], T* const (&to)[kTogether],
                     std::int64_t count) {
    Wide<T> last[kTogether];
    std::fill_n(last, kTogether, Op::template identity<Wide<T>>());
    for (std::int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 8
      for (std::int64_t row = 0; row < kTogether; ++row) {
        expect_line(x[row] + kTogether * count, to[row] + kTogether * count, i);
      }
#pragma GCC unroll 8
      for (std::int64_t row = 0; row < kTogether; ++row) {
        last[row] = Op::combine(last[row], Wide<T>(x[row][i]));
      }
#pragma GCC unroll 8
      for (std::int64_t row = 0; row < kTogether; ++row) to[row][i] = static_cast<T>(last[row]);
    }
  }

  template <typename T>
  static void down(const InputLines<T>& x, const OutputLines<T>& to) {
    const std::int64_t columns = x.columns();
    const auto sums = scratch<Wide<T>>(columns);
    Wide<T>* const last = sums.get();
    std::fill_n(last, columns, Op::template identity<Wide<T>>());
    for (std::int64_t i = 0; i < x.lines(); ++i) {
      const T* const from = x.line(i);
      T* const line = to.line(i);
#pragma GCC ivdep
      for (std::int64_t c = 0; c < columns; ++c) {
        last[c] = Op::combine(last[c], Wide<T>(from[c]));
        line[c] = static_cast<T>(last[c]);
      }
    }
  }
};

using shardlab::log_of_sum;
// Around the one with the larger real part.
std::complex<double> log_of_sum(std::complex<double> a, std::complex<double> b) {
  if (is_nan(a) || is_nan(b)) return a + b;
  const bool first = a.real() > b.real();
  const std::complex<double> most = first ? a : b, least = first ? b : a;
  if (std::isinf(most.real()) && most.real() == least.real()) return most;
  return most + std::log(1.0 + std::exp(least - most));
}

struct LogcumsumexpRow {
  template <typename T>
  static void apply(const T* x, T* to, std::int64_t count) {
    using Sum = std::conditional_t<Real<T>, double, std::complex<double>>;
    Sum sum(-std::numeric_limits<double>::infinity());
    for (std::int64_t i = 0; i < count; ++i) {
      sum = i == 0 ? Sum(x[i]) : log_of_sum(sum, Sum(x[i]));
      to[i] = static_cast<T>(sum);
    }
  }
};

// Rows that are computed where they stay.
template <typename T>
void softmax_in_place(OutputRows<T>& out, Rows<T>& rows) {
  OwedRow<T> owed;
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    out.write(i, [&](T* to) { owed = SoftmaxRow::next(row, to, rows.size(), owed); });
  }
  owed.divide_from(0);
}

// Rows that are read and written where they stay, several beside each other; how many were.
template <typename Row, typename T>
std::int64_t rows_beside(OutputRows<T>& out, Rows<T>& rows) {
  std::int64_t i = 0;
  for (; i + Row::kTogether <= rows.count(); i += Row::kTogether) {
    const T* from[Row::kTogether];
    T* to[Row::kTogether];
    for (std::int64_t k = 0; k < Row::kTogether; ++k) {
      from[k] = rows.row(i + k);
      out.write(i + k, [&](T* row) { to[k] = row; });
    }
    Row::beside(from, to, rows.size());
  }
  return i;
}

// Rows that go down beside each other, of one input or two.
template <typename Row, typename T, typename... Input>
bool map_columns(const Tensor& out, const DimMask& dim, const Input&... inputs) {
  const RowLayout layout(out, dim);
  const auto run = [&](const auto&... layouts) {
    if (!(go_down_together(layout, layouts) && ...)) return false;
    for_neighbours(layout, out.dtype() != dtype_of<T>(), [&](const Neighbours& rows) {
      const OutputLines<T> to(out, layout, rows);
      Row::down(InputLines<T>(inputs, layouts, rows)..., to);
      to.store();
    });
    return true;
  };
  return run(RowLayout(inputs, dim)...);
}

template <typename Row, typename T>
void map_rows(const KernelCall& call, std::size_t dim_argument) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, dim_argument), self);
  if constexpr (requires { &Row::template down<T>; }) {
    if (map_columns<Row, T>(call.outputs[0], dim, self)) return;
  }
  OutputRows<T> out(call.outputs[0], dim);
  Rows<T> rows(self, dim);
  if constexpr (std::is_same_v<Row, SoftmaxRow>) {
    if (out.stays()) return softmax_in_place(out, rows);
  }
  std::int64_t done = 0;
  if constexpr (requires { Row::kTogether; }) {
    if (out.stays() && rows.stay()) done = rows_beside<Row>(out, rows);
  }
  for (std::int64_t i = done; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    out.write(i, [&](T* to) { Row::apply(row, to, rows.size()); });
  }
  out.store();
}

template <typename Row>
void softmax_kernel(const KernelCall& call) {
  with_compute_type<kRealKind>(tensor_arg(call, 0).dtype(),
                               [&](auto type) { map_rows<Row, decltype(type)>(call, 1); });
}

template <typename Row, unsigned kinds>
void scan_kernel(const KernelCall& call) {
  with_compute_type<kinds>(call.outputs[0].dtype(),
                           [&](auto type) { map_rows<Row, decltype(type)>(call, 1); });
}

// The largest or smallest so far and the latest place where it stood.
template <Extreme extreme>
void running_extremum_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    const DimMask dim = single_dim(int_arg(call, 1), self);
    OutputRows<T> values(call.outputs[0], dim);
    OutputRows<std::int64_t> indices(call.outputs[1], dim);
    Rows<T> rows(self, dim);
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const T* row = rows.row(i);
      indices.write(i, [&](std::int64_t* index) {
        std::int64_t best = 0;
        for (std::int64_t j = 0; j < rows.size(); ++j) {
          if (takes_over<extreme>(row[j], row[best])) best = j;
          index[j] = best;
        }
        values.write(i, [&](T* value) {
          for (std::int64_t j = 0; j < rows.size(); ++j) value[j] = row[index[j]];
        });
      });
    }
    values.store();
    indices.store();
  });
}

// (grad_output, output, dim, input_dtype)
template <typename Row>
void softmax_backward_kernel(const KernelCall& call) {
  const Tensor &grad = tensor_arg(call, 0), &output = tensor_arg(call, 1);
  with_compute_type<kRealKind>(grad.dtype(), [&](auto type) {
    using T = decltype(type);
    const DimMask dim = single_dim(int_arg(call, 2), grad);
    if (map_columns<Row, T>(call.outputs[0], dim, grad, output)) return;
    OutputRows<T> out(call.outputs[0], dim);
    Rows<T> grads(grad, dim), outputs(output, dim);
    for (std::int64_t i = 0; i < grads.count(); ++i) {
      const T *slope = grads.row(i), *y = outputs.row(i);
      out.write(i, [&](T* to) { Row::apply(slope, y, to, grads.size()); });
    }
    out.store();
  });
}

}  // namespace

void add_along_dim_kernels(KernelTable& table) {
  table.set(KernelId::kSoftmax, softmax_kernel<SoftmaxRow>);
  table.set(KernelId::kLogSoftmax, softmax_kernel<LogSoftmaxRow>);
  table.set(KernelId::kSoftmaxBackward, softmax_backward_kernel<SoftmaxGradRow>);
  table.set(KernelId::kLogSoftmaxBackward, softmax_backward_kernel<LogSoftmaxGradRow>);
  table.set(KernelId::kCumsum, scan_kernel<RunningRow<SumOp>, kAllKinds>);
  table.set(KernelId::kCumprod, scan_kernel<RunningRow<ProdOp>, kAllKinds>);
  table.set(KernelId::kLogcumsumexp, scan_kernel<LogcumsumexpRow, kFloatKinds>);
  table.set(KernelId::kCummax, running_extremum_kernel<Extreme::kLargest>);
  table.set(KernelId::kCummin, running_extremum_kernel<Extreme::kSmallest>);
}

}  // namespace shardlab
