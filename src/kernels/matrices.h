// matrices.h - operands and results of linear algebra kernels: a batch of matrices in the last two
// dims, one after the other, in f64 or c128, rounded once.
#pragma once

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "kernels/eigen_core.h"
#include "kernels/elementwise.h"
#include "kernels/scratch.h"

namespace shardlab {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// The layout for decompositions, which walk column after column.
template <typename T>
using ByColumns = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

inline std::int64_t last_size(const Tensor& tensor, std::size_t from_end) {
  return tensor.size(tensor.shape().size() - from_end);
}

/// The sizes in front of the last `count` dims.
inline Dims front_of(const Tensor& tensor, std::size_t count) {
  return Dims(tensor.shape().begin(), tensor.shape().end() - static_cast<std::ptrdiff_t>(count));
}

inline std::int64_t count_of(const Dims& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// One vector per matrix, as a matrix of one column.
inline Tensor as_columns(const Tensor& b) {
  TensorMeta meta = b.meta();
  meta.shape.push_back(1);
  meta.stride.push_back(1);
  return b.as_view(meta, b.offset());
}

/// The size by which LAPACK chooses pivots.
inline double pivot_size(double x) { return std::abs(x); }
inline double pivot_size(std::complex<double> x) { return std::abs(x.real()) + std::abs(x.imag()); }

/// X with A X = B, in place of B, of a triangle. Row by row: Eigen's blocks take seconds to
/// compile.
template <typename T>
void solve_triangle(const Matrix<T>& a, Matrix<T>& b, bool upper, bool unit) {
  const Eigen::Index n = b.rows();
  for (Eigen::Index step = 0; step < n; ++step) {
    const Eigen::Index i = upper ? n - 1 - step : step;
    const Eigen::Index begin = upper ? i + 1 : 0, end = upper ? n : i;
    for (Eigen::Index j = begin; j < end; ++j) b.row(i) -= a(i, j) * b.row(j);
    if (!unit) b.row(i) /= a(i, i);
  }
}

/// The divisor of a matrix with which products of its elements neither overflow nor vanish.
template <typename T>
double scale_of(const Matrix<T>& a) {
  const double largest = a.size() == 0 ? 0 : a.cwiseAbs().maxCoeff();
  return largest > 0 && std::isfinite(largest) ? largest : 1;
}

/// The same where they otherwise would, else 1, so that elements keep their last bits.
template <typename T>
double far_scale_of(const Matrix<T>& a) {
  const double scale = scale_of(a);
  return scale > 1e150 || scale < 1e-150 ? scale : 1;
}

/// Whether iterations can decompose a matrix: those with infinities have NaN for values, as in the
/// reference, since Eigen never writes their results. NaN is refused with Runtime.
template <typename T>
bool decomposes(std::string_view op, const Matrix<T>& a) {
  if (a.allFinite()) return true;
  if (a.hasNaN()) {
    fail(ErrorKind::kRuntime, Fix{"replace them first: torch.nan_to_num(x)"},
         "{}: a matrix has NaN", op);
  }
  return false;
}

/// Matrices to be read; the front may be stretched to `batch`.
template <typename T>
class Batch {
 public:
  Batch(const Tensor& tensor, Dims batch)
      : rows_(last_size(tensor, 2)), columns_(last_size(tensor, 1)), count_(count_of(batch)) {
    batch.push_back(rows_);
    batch.push_back(columns_);
    elements_ = scratch<T>(count_ * rows_ * columns_);
    load_row_major(elements_.get(), dtype_of<T>(), broadcast_view(tensor, batch));
  }
  explicit Batch(const Tensor& tensor) : Batch(tensor, front_of(tensor, 2)) {}

  std::int64_t count() const { return count_; }
  Matrix<T> operator[](std::int64_t i) const {
    return Eigen::Map<const Matrix<T>>(elements_.get() + i * rows_ * columns_, rows_, columns_);
  }

 private:
  std::int64_t rows_, columns_, count_;
  Scratch<T> elements_;
};

/// Calls visit(a) with the matrices of the call's first argument in its wide type.
void with_matrices(const KernelCall& call, const auto& visit) {
  const Tensor& self = tensor_arg(call, 0);
  with_wide_type(self, [&]<typename T>(T) { visit(Batch<T>(self)); });
}

/// Pivots, a list for each matrix; the front may be stretched to `batch`.
class Pivots {
 public:
  Pivots(const Tensor& pivots, Dims batch) : size_(last_size(pivots, 1)) {
    batch.push_back(size_);
    rows_ = scratch<std::int64_t>(count_of(batch));
    load_row_major(rows_.get(), DType::kI64, broadcast_view(pivots, batch));
  }
  const std::int64_t* operator[](std::int64_t i) const { return rows_.get() + i * size_; }

 private:
  std::int64_t size_;
  Scratch<std::int64_t> rows_;
};

/// Results of one size each, written one after the other.
template <typename T>
class Written {
 public:
  explicit Written(const Tensor& out) : out_(out), elements_(scratch<T>(out.numel())) {}
  void append(const auto& values) {
    for (Eigen::Index i = 0; i < values.rows(); ++i) {
      for (Eigen::Index j = 0; j < values.cols(); ++j) elements_[next_++] = values(i, j);
    }
  }
  void append_number(T value) { elements_[next_++] = value; }
  void store() const {
    check_invariant(next_ == out_.numel(), "every element of a result is computed");
    store_row_major(out_, elements_.get(), dtype_of<T>());
  }

 private:
  const Tensor& out_;
  Scratch<T> elements_;
  std::int64_t next_ = 0;
};

/// store() of each.
void store_all(const auto&... results) { (results.store(), ...); }

/// Each matrix of the result = of(a matrix of each given tensor), whose fronts are stretched to
/// that of the result.
template <typename Of, typename... Given>
void each_matrix(const Tensor& out, Of of, const Given&... given) {
  with_wide_type(out, [&]<typename T>(T) {
    const Dims batch = front_of(out, 2);
    Written<T> result(out);
    const auto write = [&](const auto&... batches) {
      for (std::int64_t i = 0; i < count_of(batch); ++i) {
        result.append(Matrix<T>(of(batches[i]...)));
      }
    };
    write(Batch<T>(given, batch)...);
    result.store();
  });
}

}  // namespace shardlab
