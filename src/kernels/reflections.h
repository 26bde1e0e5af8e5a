// reflections.h - Householder's reflections 1 - factor v v^H, of which v starts with a 1, packed as
// LAPACK packs them: v below the diagonal of the matrix that they have made triangular.
// They are applied one by one in plain loops. Eigen applies them in blocks, which is faster for
// large matrices, and takes a minute to compile for the two types and both orders of elements.
#pragma once

#include <vector>

#include "kernels/matrices.h"

namespace shardlab {

template <typename T>
struct Reflection {
  Eigen::Index first = 0;  ///< the row that v starts at
  std::vector<T> v;
  T factor = T(0);

  /// Columns of x from `column` on.
  void from_left(Matrix<T>& x, Eigen::Index column = 0) const {
    std::vector<T> sums(static_cast<std::size_t>(x.cols() - column), T(0));
    for (std::size_t i = 0; i < v.size(); ++i) {
      const T* row = row_of(x, i) + column;
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += Eigen::numext::conj(v[i]) * row[j];
    }
    for (std::size_t i = 0; i < v.size(); ++i) {
      T* row = row_of(x, i) + column;
      for (std::size_t j = 0; j < sums.size(); ++j) row[j] -= factor * v[i] * sums[j];
    }
  }
  void from_right(Matrix<T>& x) const {
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      T* row = x.data() + i * x.cols() + first;
      T sum = T(0);
      for (std::size_t j = 0; j < v.size(); ++j) sum += row[j] * v[j];
      for (std::size_t j = 0; j < v.size(); ++j) row[j] -= factor * sum * Eigen::numext::conj(v[j]);
    }
  }
  Reflection adjoint() const { return {first, v, Eigen::numext::conj(factor)}; }

 private:
  auto* row_of(auto& x, std::size_t i) const {
    return x.data() + (first + static_cast<Eigen::Index>(i)) * x.cols();
  }
};

/// Number `k` of those that are packed.
template <typename T>
Reflection<T> unpacked(const Matrix<T>& packed, Eigen::Index k, T factor);

/// A matrix as Q R.
template <typename T>
struct PackedQr {
  Matrix<T> packed;        ///< R, and the reflections below it
  std::vector<T> factors;  ///< Q is the product of the reflections
  /// The first `columns` of Q.
  Matrix<T> q(Eigen::Index columns) const;
};
template <typename T>
PackedQr<T> packed_qr(Matrix<T> a);

/// A square matrix as Q H Q^H, where H is zero below the numbers next to the diagonal: of a
/// Hermitian one H is tridiagonal and real.
template <typename T>
struct Hessenberg {
  Matrix<T> h, q;
};
template <typename T>
Hessenberg<T> hessenberg(Matrix<T> a);

}  // namespace shardlab
