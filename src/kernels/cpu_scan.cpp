// Running sums, products and extrema on the CPU.
#include <complex>

#include "kernels/cpu_loops.h"
#include "kernels/row_reduce.h"
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

template <typename Row, unsigned kinds>
void scan_by(const Tensor& self, const DimMask& dim, const Tensor& values) {
  with_compute_type<kinds>(values.dtype(), [&]<typename T>(T) {
    OutputRows<T> out(values, dim);
    Rows<T> rows(self, dim);
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const T* row = rows.row(i);
      out.write(i, [&](T* to) { Row::apply(row, to, rows.size()); });
    }
    out.store();
  });
}

// The largest or smallest so far and its latest place.
template <Extreme extreme>
void scan_extrema(const Tensor& self, const DimMask& dim, const Tensor& to, const Tensor& places) {
  with_compute_type<kNoComplex>(self.dtype(), [&]<typename T>(T) {
    OutputRows<T> values(to, dim);
    OutputRows<std::int64_t> indices(places, dim);
    Rows<T> rows(self, dim);
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const T* row = rows.row(i);
      indices.write(i, [&](std::int64_t* index) {
        values.write(i, [&](T* value) {
          std::int64_t best = 0;
          for (std::int64_t j = 0; j < rows.size(); ++j) {
            if (takes_over<extreme>(row[j], row[best])) best = j;
            index[j] = best;
            value[j] = row[best];
          }
        });
      });
    }
    values.store();
    indices.store();
  });
}

}  // namespace

void CpuLoops::scan(Scan scan, const Tensor& self, const DimMask& dim, const Tensor& values,
                    const Tensor& places) {
  switch (scan) {
    case Scan::kSum:
      return scan_by<RunningRow<SumOp>, kAllKinds>(self, dim, values);
    case Scan::kProduct:
      return scan_by<RunningRow<ProdOp>, kAllKinds>(self, dim, values);
    case Scan::kLogOfSum:
      return scan_by<LogcumsumexpRow, kFloatKinds>(self, dim, values);
    case Scan::kLargest:
      return scan_extrema<Extreme::kLargest>(self, dim, values, places);
    case Scan::kSmallest:
      return scan_extrema<Extreme::kSmallest>(self, dim, values, places);
  }
}

}  // namespace shardlab
