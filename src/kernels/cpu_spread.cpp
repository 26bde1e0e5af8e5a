// Means and squared distances from them on the CPU, for variances: two sums in f64, in the order of
// all reductions (row_reduce.h), so that results do not depend on the layout of a tensor.
#include <cmath>

#include "kernels/cpu_loops.h"
#include "kernels/row_reduce.h"
#include "kernels/scratch.h"

namespace shardlab {

void CpuLoops::spread(const Tensor& self, const DimMask& reduced, const Tensor& means,
                      const Tensor& squares) {
  const RowLayout layout(self, reduced);
  with_wide_type(self, [&]<typename T>(T) {
    const RowMajorOutput<T> mean(means);
    const RowMajorOutput<double> square(squares);
    Rows<T> rows(self, layout);
    for (std::int64_t row = 0; row < layout.rows(); ++row) {
      const auto sum_of = [&]<typename Of>(const Of& of) {
        using Sum = decltype(of(T{}));
        const auto leaf = [&](std::int64_t first, std::int64_t count) {
          const T* const x = rows.part(row, first, count);
          return reduce_leaf<SumOp, Sum>([&](std::int64_t i) { return of(x[i]); }, count);
        };
        return reduce_leaves<SumOp, Sum>(leaf, 0, layout.size());
      };
      // NaN if there are no elements.
      T middle = sum_of([](T x) { return x; }) / static_cast<double>(layout.size());
      // The reference's mean steps from element to element, and is NaN behind an infinity.
      if (layout.size() > 0 && !std::isfinite(squared_magnitude(middle))) {
        middle = {};
        const T* const x = rows.row(row);
        for (std::int64_t i = 0; i < layout.size(); ++i) {
          middle += (x[i] - middle) / static_cast<double>(i + 1);
        }
      }
      mean.data()[row] = middle;
      square.data()[row] = sum_of([=](T x) { return squared_magnitude(x - middle); });
    }
  });
}

}  // namespace shardlab
