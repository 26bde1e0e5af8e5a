// Ops along one dim that keep it: running sums, products and extrema.
#include <algorithm>
#include <complex>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/rows.h"
#include "kernels/running.h"

namespace shardlab {

namespace {

// Sums and products so far; f32 adds up and multiplies in f64, as the reference does.
template <class Op>
struct RunningRow {
  template <typename T>
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

  template <typename T>
  static void apply(const T* x, T* to, std::int64_t count) {
    Wide<T> last = Op::template identity<Wide<T>>();
    for (std::int64_t i = 0; i < count; ++i) {
      last = Op::combine(last, Wide<T>(x[i]));
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

template <typename Row, typename T>
void map_rows(const KernelCall& call, std::size_t dim_argument) {
  const Tensor self = converted_first(tensor_arg(call, 0), call.outputs[0].dtype());
  const DimMask dim = single_dim(int_arg(call, dim_argument), self);
  OutputRows<T> out(call.outputs[0], dim);
  Rows<T> rows(self, dim);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    out.write(i, [&](T* to) { Row::apply(row, to, rows.size()); });
  }
  out.store();
}

template <typename Row, unsigned kinds>
void scan_kernel(const KernelCall& call) {
  with_compute_type<kinds>(call.outputs[0].dtype(),
                           [&](auto type) { map_rows<Row, decltype(type)>(call, 1); });
}

// The largest or smallest so far and its latest place.
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

}  // namespace

void add_along_dim_kernels(KernelTable& table) {
  table.set(KernelId::kCumsum, scan_kernel<RunningRow<SumOp>, kAllKinds>);
  table.set(KernelId::kCumprod, scan_kernel<RunningRow<ProdOp>, kAllKinds>);
  table.set(KernelId::kLogcumsumexp, scan_kernel<LogcumsumexpRow, kFloatKinds>);
  table.set(KernelId::kCummax, running_extremum_kernel<Extreme::kLargest>);
  table.set(KernelId::kCummin, running_extremum_kernel<Extreme::kSmallest>);
}

}  // namespace shardlab
