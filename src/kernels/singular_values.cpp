// Singular values of the last two dims: Jacobi's rotations, by Eigen, of the triangle that our
// reflections leave, so that its time grows with the shorter side.
#include <Eigen/SVD>

#include <algorithm>
#include <utility>

#include "kernels/eigen_core.h"
#include "kernels/kernel_table.h"
#include "kernels/reflections.h"

namespace shardlab {

namespace {

template <typename T>
struct SingularValues {
  Matrix<T> u, vh;
  Eigen::VectorXd values;
};

// With as many rows as columns, or more.
template <typename T>
SingularValues<T> of_tall(const Matrix<T>& a, bool full) {
  const Eigen::Index rows = a.rows(), columns = a.cols();
  const PackedQr<T> qr = packed_qr<T>(a);
  ByColumns<T> r = ByColumns<T>::Zero(columns, columns);
  for (Eigen::Index j = 0; j < columns; ++j) {
    for (Eigen::Index i = 0; i <= j; ++i) r(i, j) = qr.packed(i, j);
  }
  const Eigen::JacobiSVD<ByColumns<T>, Eigen::NoQRPreconditioner> svd(
      r, Eigen::ComputeFullU | Eigen::ComputeFullV);
  Matrix<T> u = qr.q(full ? rows : columns);
  const Matrix<T> turned = u.leftCols(columns).lazyProduct(svd.matrixU());
  u.leftCols(columns) = turned;
  return {std::move(u), svd.matrixV().adjoint(), svd.singularValues()};
}

// A matrix with infinities has values that are NaN between identities.
template <typename T>
SingularValues<T> undefined(const Matrix<T>& a, bool full) {
  const Eigen::Index rows = a.rows(), columns = a.cols(), count = std::min(rows, columns);
  return {Matrix<T>::Identity(rows, full ? rows : count),
          Matrix<T>::Identity(full ? columns : count, columns),
          Eigen::VectorXd::Constant(count, kNotANumber)};
}

// U is square where `full`, else it has a column for each value; Vh alike.
template <typename T>
SingularValues<T> singular_values(const Matrix<T>& a, bool full) {
  const Eigen::Index rows = a.rows(), columns = a.cols();
  if (a.size() == 0) {
    return {Matrix<T>::Identity(rows, full ? rows : 0),
            Matrix<T>::Identity(full ? columns : 0, columns), Eigen::VectorXd()};
  }
  if (!decomposes<T>("linalg_svd", a)) return undefined<T>(a, full);
  const double scale = far_scale_of(a);
  if (scale != 1) {
    SingularValues<T> found = singular_values<T>(a / scale, full);
    found.values *= scale;
    return found;
  }
  if (rows >= columns) return of_tall<T>(a, full);
  SingularValues<T> turned = of_tall<T>(a.adjoint(), full);
  return {turned.vh.adjoint(), turned.u.adjoint(), std::move(turned.values)};
}

// _linalg_svd(A, full_matrices, compute_uv, *, driver): U, S, Vh
void svd_kernel(const KernelCall& call) {
  const bool full = scalar_arg(call, 1).to_bool(), vectors = scalar_arg(call, 2).to_bool();
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<T> u(call.outputs[0]), vh(call.outputs[2]);
    Written<double> s(call.outputs[1]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const SingularValues<T> found = singular_values<T>(a[i], full);
      s.append(found.values);
      if (!vectors) continue;
      u.append(found.u);
      vh.append(found.vh);
    }
    s.store();
    if (vectors) u.store();
    if (vectors) vh.store();
  });
}

}  // namespace

void add_singular_value_kernels(CpuKernelTable& table) { table.set(KernelId::kSvd, svd_kernel); }

}  // namespace shardlab
