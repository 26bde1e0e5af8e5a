// Means and squared distances from them on the CPU, for variances. Mean and squared distances from
// it are found in one pass: within a leaf of kReduceLeaf elements distances are taken from its
// first element, which is near enough: the part that cancels later is at most as many times the
// rest as a leaf has elements. Leaves meet pairwise, in the order of all reductions (row_reduce.h),
// so that results do not depend on the layout of a tensor.
#include <complex>
#include <limits>

#include "kernels/cpu_loops.h"
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

constexpr std::int64_t kSpreadLanes = 16;

template <typename T>
Spread<T> leaf_spread(const T* x, std::int64_t count) {
  if (count == 0) return {};
  T sums[kSpreadLanes] = {};
  double squares[kSpreadLanes] = {};
  const auto take = [&, first = x[0]](std::int64_t i, std::int64_t lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const T apart = x[i + lane] - first;
      sums[lane] += apart;
      squares[lane] += squared_magnitude(apart);
    }
  };
  const std::int64_t whole = count - count % kSpreadLanes;
  for (std::int64_t i = 0; i < whole; i += kSpreadLanes) take(i, kSpreadLanes);
  take(whole, count - whole);
  for (std::int64_t half = kSpreadLanes / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) {
      sums[i] += sums[i + half];
      squares[i] += squares[i + half];
    }
  }
  return LeafSums<T>{sums[0], squares[0]}.spread(x[0], static_cast<double>(count));
}

}  // namespace

void CpuLoops::spread(const Tensor& self, const DimMask& reduced, const Tensor& means,
                      const Tensor& squares) {
  const RowLayout layout(self, reduced);
  with_wide_type(self, [&](auto type) {
    using T = decltype(type);
    const RowMajorOutput<T> mean(means);
    const RowMajorOutput<double> square(squares);
    Rows<T> rows(self, layout);
    for (std::int64_t i = 0; i < layout.rows(); ++i) {
      const auto spread = reduce_leaves<SpreadOp, Spread<T>>(
          [&](std::int64_t first, std::int64_t count) {
            return leaf_spread(rows.part(i, first, count), count);
          },
          0, layout.size());
      mean.data()[i] = spread.mean;
      square.data()[i] = spread.squares;
    }
  });
}

}  // namespace shardlab
