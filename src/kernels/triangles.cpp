// Triangles of the last two dims, the factor of Cholesky, and solutions by them; also the
// exponential of a matrix.
#include <cmath>

#include "kernels/kernel_table.h"
#include "kernels/matrices.h"

namespace shardlab {

namespace {

// linalg_solve_triangular(self, B, *, upper, left, unitriangular)
void solve_triangular_kernel(const KernelCall& call) {
  const bool upper = scalar_arg(call, 2).to_bool(), left = scalar_arg(call, 3).to_bool();
  const bool unit = scalar_arg(call, 4).to_bool();
  const auto solved = [&]<typename M>(const M& a, M b) -> M {
    if (left) {
      solve_triangle(a, b, upper, unit);
      return b;
    }
    M x = b.transpose();
    solve_triangle(M(a.transpose()), x, !upper, unit);
    return x.transpose();
  };
  each_matrix(call.outputs[0], solved, tensor_arg(call, 0), tensor_arg(call, 1));
}

// triangular_solve(self, A, upper, transpose, unitriangular): solution, a copy of A
void triangular_solve_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const bool upper = scalar_arg(call, 2).to_bool(), turned = scalar_arg(call, 3).to_bool();
  const bool unit = scalar_arg(call, 4).to_bool();
  with_wide_type(out, [&]<typename T>(T) {
    const Dims batch = front_of(out, 2);
    const Batch<T> b(tensor_arg(call, 0), batch), a(tensor_arg(call, 1), batch);
    Written<T> result(out), copy(call.outputs[1]);
    for (std::int64_t i = 0; i < b.count(); ++i) {
      Matrix<T> x = b[i];
      solve_triangle(turned ? Matrix<T>(a[i].transpose()) : a[i], x, upper != turned, unit);
      result.append(x);
      copy.append(a[i]);
    }
    store_all(result, copy);
  });
}

// linalg_cholesky_ex(self, *, upper, check_errors): L, info: the first minor that is not positive
void cholesky_kernel(const KernelCall& call) {
  const bool upper = scalar_arg(call, 1).to_bool();
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<T> result(call.outputs[0]);
    Written<std::int64_t> info(call.outputs[1]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      Matrix<T> l = upper ? Matrix<T>(a[i].adjoint()) : a[i];
      std::int64_t failed = 0;
      for (Eigen::Index j = 0; j < l.rows() && failed == 0; ++j) {
        const double rest = std::real(l(j, j)) - l.row(j).head(j).squaredNorm();
        if (!(rest > 0)) failed = j + 1;
        l(j, j) = std::sqrt(rest);
        for (Eigen::Index k = j + 1; k < l.rows(); ++k) {
          l(k, j) = (l(k, j) - l.row(j).head(j).dot(l.row(k).head(j))) / l(j, j);
        }
      }
      for (Eigen::Index j = 0; j < l.rows(); ++j) l.row(j).tail(l.cols() - j - 1).setZero();
      if (upper) l = Matrix<T>(l.adjoint());
      result.append(l);
      info.append_number(failed);
    }
    store_all(result, info);
  });
}

// X with A X = B, of the triangle whose square is A.
template <typename T>
Matrix<T> solve_square(const Matrix<T>& triangle, Matrix<T> b, bool upper) {
  const Matrix<T> other = triangle.adjoint();
  solve_triangle(upper ? other : triangle, b, false, false);
  solve_triangle(upper ? triangle : other, b, true, false);
  return b;
}

// cholesky_solve(self, input2, upper)
void cholesky_solve_kernel(const KernelCall& call) {
  const bool upper = scalar_arg(call, 2).to_bool();
  each_matrix(
      call.outputs[0],
      [&](const auto& b, const auto& triangle) { return solve_square(triangle, b, upper); },
      tensor_arg(call, 0), tensor_arg(call, 1));
}

// cholesky_inverse(self, upper)
void cholesky_inverse_kernel(const KernelCall& call) {
  const bool upper = scalar_arg(call, 1).to_bool();
  const auto inverse = [&]<typename M>(const M& triangle) {
    return solve_square(triangle, M(M::Identity(triangle.rows(), triangle.rows())), upper);
  };
  each_matrix(call.outputs[0], inverse, tensor_arg(call, 0));
}

// linalg_matrix_exp(self): Taylor's series of a small enough part, squared as often.
template <typename T>
Matrix<T> exponential(const Matrix<T>& a) {
  // An infinity would be halved without an end.
  if (!a.allFinite()) return Matrix<T>::Constant(a.rows(), a.cols(), T(kNotANumber));
  const double size = a.size() == 0 ? 0 : a.cwiseAbs().rowwise().sum().maxCoeff();
  const int squarings = size > 0.25 ? static_cast<int>(std::ceil(std::log2(size * 4))) : 0;
  const Matrix<T> part = a * T(std::ldexp(1.0, -squarings));
  Matrix<T> term = Matrix<T>::Identity(part.rows(), part.rows()), sum = term;
  for (int k = 1; k <= 16; ++k) {
    term = term.lazyProduct(part).eval() / T(k);
    sum += term;
  }
  for (int k = 0; k < squarings; ++k) sum = sum.lazyProduct(sum).eval();
  return sum;
}

void matrix_exp_kernel(const KernelCall& call) {
  each_matrix(
      call.outputs[0], [](const auto& a) { return exponential(a); }, tensor_arg(call, 0));
}

}  // namespace

void add_triangle_kernels(CpuKernelTable& table) {
  table.set(KernelId::kCholeskyEx, cholesky_kernel);
  table.set(KernelId::kCholeskyInverse, cholesky_inverse_kernel);
  table.set(KernelId::kCholeskySolve, cholesky_solve_kernel);
  table.set(KernelId::kMatrixExp, matrix_exp_kernel);
  table.set(KernelId::kSolveTriangular, solve_triangular_kernel);
  table.set(KernelId::kTriangularSolve, triangular_solve_kernel);
}

}  // namespace shardlab
