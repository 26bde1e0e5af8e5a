// Eigenvalues of the last two dims, of matrices without symmetry. Eigen iterates; the steps before
// and after are our reflections, since Eigen's own would take most of the time that a build needs.
#include <Eigen/Eigenvalues>

#include <cmath>
#include <complex>

#include "base/error.h"
#include "kernels/eigen_core.h"
#include "kernels/kernel_table.h"
#include "kernels/reflections.h"

namespace shardlab {

namespace {

using Number = std::complex<double>;
// A = Q T Q^H with the eigenvalues on the diagonal of T, which is zero below it.
struct Triangular {
  ByColumns<Number> t, q;
  Eigen::VectorXcd values;
};

Triangular triangular_of(const Matrix<Number>& a) {
  const Hessenberg<Number> reduced = hessenberg<Number>(a);
  Eigen::ComplexSchur<ByColumns<Number>> schur(a.rows());
  schur.computeFromHessenberg(ByColumns<Number>(reduced.h), ByColumns<Number>(reduced.q), true);
  return {schur.matrixT(), schur.matrixU(), schur.matrixT().diagonal()};
}

// A real matrix leaves 2x2 blocks on the diagonal, each with a pair of conjugate eigenvalues. A
// rotation, whose first column is an eigenvector of the block, makes one triangular.
Triangular triangular_of(const Matrix<double>& a) {
  const Hessenberg<double> reduced = hessenberg<double>(a);
  Eigen::RealSchur<ByColumns<double>> schur(a.rows());
  schur.computeFromHessenberg(ByColumns<double>(reduced.h), ByColumns<double>(reduced.q), true);
  const ByColumns<double>& blocks = schur.matrixT();
  Triangular result{blocks.cast<Number>(), schur.matrixU().cast<Number>(),
                    blocks.diagonal().cast<Number>()};
  for (Eigen::Index i = 0; i + 1 < blocks.rows(); ++i) {
    if (blocks(i + 1, i) == 0) continue;
    const double half = (blocks(i, i) - blocks(i + 1, i + 1)) / 2;
    const double height = std::sqrt(std::abs(half * half + blocks(i + 1, i) * blocks(i, i + 1)));
    const double middle = blocks(i + 1, i + 1) + half;
    result.values(i) = {middle, height};
    result.values(i + 1) = {middle, -height};
    const Number apart = result.values(i) - blocks(i + 1, i + 1), below = blocks(i + 1, i);
    const double length = std::hypot(std::abs(apart), std::abs(below));
    const Number c = apart / length, s = below / length;
    const auto turn_columns = [&](ByColumns<Number>& x) {
      for (Eigen::Index row = 0; row < x.rows(); ++row) {
        const Number first = x(row, i), second = x(row, i + 1);
        x(row, i) = first * c + second * s;
        x(row, i + 1) = second * std::conj(c) - first * std::conj(s);
      }
    };
    for (Eigen::Index j = 0; j < a.cols(); ++j) {
      const Number first = result.t(i, j), second = result.t(i + 1, j);
      result.t(i, j) = std::conj(c) * first + std::conj(s) * second;
      result.t(i + 1, j) = c * second - s * first;
    }
    turn_columns(result.t);
    turn_columns(result.q);
    ++i;  // the second row of the block
  }
  return result;
}

// Vectors have length 1. In each the largest number is real, as LAPACK leaves them.
Matrix<Number> eigenvectors_of(const Triangular& a) {
  const Eigen::Index n = a.t.rows();
  double scale = 0;
  for (Eigen::Index i = 0; i < n; ++i) scale = std::max(scale, pivot_size(a.values(i)));
  const double least = std::max(scale, 1.0) * std::numeric_limits<double>::epsilon();
  ByColumns<Number> x = ByColumns<Number>::Zero(n, n);
  for (Eigen::Index k = 0; k < n; ++k) {
    x(k, k) = 1;
    for (Eigen::Index i = k; i-- > 0;) {
      Number sum = a.t(i, k);
      for (Eigen::Index j = i + 1; j < k; ++j) sum += a.t(i, j) * x(j, k);
      const Number apart = a.values(i) - a.values(k);
      // Equal eigenvalues may have one vector only; this one is then close to it.
      x(i, k) = -sum / (pivot_size(apart) < least ? Number(least) : apart);
    }
  }
  Matrix<Number> found = a.q.lazyProduct(x).eval();
  for (Eigen::Index column = 0; column < n; ++column) {
    Eigen::Index largest = 0;
    found.col(column).cwiseAbs().maxCoeff(&largest);
    const Number number = found(largest, column);
    const double size = found.col(column).norm(), length = std::abs(number);
    if (length > 0 && number.imag() != 0) found.col(column) *= std::conj(number) / length;
    if (size > 0) found.col(column) /= size;
  }
  return found;
}

// linalg_eig(A): eigenvalues, eigenvectors, complex
void eig_kernel(const KernelCall& call) {
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<Number> values(call.outputs[0]), vectors(call.outputs[1]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a[i].size() == 0) continue;
      const Matrix<T> matrix = a[i];
      if (!matrix.allFinite()) {
        fail(ErrorKind::kRuntime, Fix{"replace them first: torch.nan_to_num(x)"},
             "linalg_eig: a matrix has infinities or NaN");
      }
      const double scale = scale_of(matrix);
      const Triangular triangular = triangular_of(Matrix<T>(matrix / scale));
      values.append((triangular.values * scale).eval());
      vectors.append(eigenvectors_of(triangular));
    }
    store_all(values, vectors);
  });
}

}  // namespace

void add_spectrum_kernels(CpuKernelTable& table) { table.set(KernelId::kEig, eig_kernel); }

}  // namespace shardlab
