// A reflection is chosen so that the number it leaves has the other sign than the one it replaces:
// their difference, which v is divided by, then has no cancellation (LAPACK's larfg).
#include "kernels/reflections.h"

#include <algorithm>
#include <cmath>
#include <complex>

namespace shardlab {

namespace {

// The one whose adjoint leaves of the rows from `first` on of a column a real number in the first,
// and zeros.
template <typename T>
Reflection<T> reflection_of(const Matrix<T>& a, Eigen::Index first, Eigen::Index column) {
  Reflection<T> reflection{first, std::vector<T>(static_cast<std::size_t>(a.rows() - first), T(0))};
  reflection.v[0] = T(1);
  double largest = 0;
  for (Eigen::Index i = first; i < a.rows(); ++i) {
    largest = std::max(largest, pivot_size(a(i, column)));
  }
  // The sum of squares of numbers near 1 neither overflows nor vanishes.
  double tail = 0;
  for (Eigen::Index i = first + 1; i < a.rows(); ++i) {
    tail += largest > 0 ? std::norm(a(i, column) / largest) : 0;
  }
  const T head = a(first, column);
  if (tail == 0 && std::imag(head) == 0) return reflection;
  const double size = largest * std::sqrt(tail + std::norm(head / largest));
  const double left = std::real(head) >= 0 ? -size : size;
  for (Eigen::Index i = first + 1; i < a.rows(); ++i) {
    reflection.v[static_cast<std::size_t>(i - first)] = a(i, column) / (head - left);
  }
  reflection.factor = (left - head) / left;
  return reflection;
}

}  // namespace

template <typename T>
Reflection<T> unpacked(const Matrix<T>& packed, Eigen::Index k, T factor) {
  Reflection<T> reflection{k, {T(1)}, factor};
  for (Eigen::Index i = k + 1; i < packed.rows(); ++i) reflection.v.push_back(packed(i, k));
  return reflection;
}

template <typename T>
Matrix<T> PackedQr<T>::q(Eigen::Index columns) const {
  Matrix<T> q = Matrix<T>::Identity(packed.rows(), columns);
  for (std::size_t k = factors.size(); k-- > 0;) {
    unpacked(packed, static_cast<Eigen::Index>(k), factors[k]).from_left(q);
  }
  return q;
}

template <typename T>
PackedQr<T> packed_qr(Matrix<T> a) {
  PackedQr<T> qr;
  for (Eigen::Index k = 0; k < std::min(a.rows(), a.cols()); ++k) {
    const Reflection<T> reflection = reflection_of(a, k, k);
    reflection.adjoint().from_left(a, k);
    // The elements that have become zero make room for v.
    for (Eigen::Index i = k + 1; i < a.rows(); ++i) {
      a(i, k) = reflection.v[static_cast<std::size_t>(i - k)];
    }
    qr.factors.push_back(reflection.factor);
  }
  qr.packed = std::move(a);
  return qr;
}

template <typename T>
Hessenberg<T> hessenberg(Matrix<T> a) {
  Matrix<T> q = Matrix<T>::Identity(a.rows(), a.rows());
  for (Eigen::Index k = 0; k + 1 < a.rows(); ++k) {
    const Reflection<T> reflection = reflection_of(a, k + 1, k);
    reflection.adjoint().from_left(a);
    for (Eigen::Index i = k + 2; i < a.rows(); ++i) a(i, k) = T(0);
    reflection.from_right(a);
    reflection.from_right(q);
  }
  return {std::move(a), std::move(q)};
}

template Reflection<double> unpacked(const Matrix<double>&, Eigen::Index, double);
template Reflection<std::complex<double>> unpacked(const Matrix<std::complex<double>>&,
                                                   Eigen::Index, std::complex<double>);
template struct PackedQr<double>;
template struct PackedQr<std::complex<double>>;
template PackedQr<double> packed_qr(Matrix<double>);
template PackedQr<std::complex<double>> packed_qr(Matrix<std::complex<double>>);
template Hessenberg<double> hessenberg(Matrix<double>);
template Hessenberg<std::complex<double>> hessenberg(Matrix<std::complex<double>>);

}  // namespace shardlab
