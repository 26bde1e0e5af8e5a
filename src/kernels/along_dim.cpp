// Ops along one dim that keep it: softmax and its gradients, running sums, products and extrema.
#include <algorithm>
#include <complex>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/rows.h"
#include "kernels/running.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

// A hint, not an access: processors fetch ahead by themselves within a page only, and a row is
// often just one.
template <typename T>
void expect(const T* next, T* next_to) {
  __builtin_prefetch(next, 0);
  __builtin_prefetch(next_to, 1);
}

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
    expect(x + count + i, to + count + i);
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
      expect(x + count + i, to + count + i);
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
};

struct LogSoftmaxRow {
  template <typename T>
  static void apply(const T* x, T* to, std::int64_t count) {
    const T largest = reduce_row<MaxOp>(x, count);
    exp_shifted(x, to, count, largest);
    const T log_total = std::log(reduce_row<SumOp>(static_cast<const T*>(to), count));
    for (std::int64_t i = 0; i < count; ++i) to[i] = x[i] - largest - log_total;
  }
};

struct SoftmaxGradRow {
  template <typename T>
  static void apply(const T* grad, const T* y, T* to, std::int64_t count) {
    const auto product = [=](std::int64_t i) { return grad[i] * y[i]; };
    const T dot = reduce_range<SumOp, T>(product, 0, count);
    for (std::int64_t i = 0; i < count; ++i) to[i] = (grad[i] - dot) * y[i];
  }
};

struct LogSoftmaxGradRow {
  template <typename T>
  static void apply(const T* grad, const T* y, T* to, std::int64_t count) {
    const T total = reduce_row<SumOp>(grad, count);
    Vectorized<element::Exp>::map(y, to, count);
    for (std::int64_t i = 0; i < count; ++i) to[i] = grad[i] - to[i] * total;
  }
};

// Sums and products so far; f32 adds up and multiplies in f64, as the reference does.
template <class Op>
struct RunningRow {
  template <typename T>
  static void apply(const T* x, T* to, std::int64_t count) {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    Wide last = Op::template identity<Wide>();
    for (std::int64_t i = 0; i < count; ++i) {
      last = Op::combine(last, Wide(x[i]));
      to[i] = static_cast<T>(last);
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

template <typename Row, typename T>
void map_rows(const KernelCall& call, std::size_t dim_argument) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, dim_argument), self);
  OutputRows<T> out(call.outputs[0], dim);
  Rows<T> rows(self, dim);
  if constexpr (std::is_same_v<Row, SoftmaxRow>) {
    if (out.stays()) return softmax_in_place(out, rows);
  }
  for (std::int64_t i = 0; i < rows.count(); ++i) {
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
