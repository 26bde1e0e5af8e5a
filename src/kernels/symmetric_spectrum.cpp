// Eigenvalues of symmetric matrices, the last two dims. As in spectrum.cpp Eigen iterates, between
// reflections of our own.
#include <Eigen/Eigenvalues>

#include <string>

#include "kernels/eigen_core.h"
#include "kernels/kernel_table.h"
#include "kernels/reflections.h"

namespace shardlab {

namespace {

// _linalg_eigh(A, UPLO, compute_v): eigenvalues, eigenvectors
void eigh_kernel(const KernelCall& call) {
  const std::string* triangle = optional_text_arg(call, 1);
  const bool upper = triangle != nullptr && (*triangle == "U" || *triangle == "u");
  const bool wanted = scalar_arg(call, 2).to_bool();
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<double> values(call.outputs[0]);
    Written<T> vectors(call.outputs[1]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a[i].size() == 0) continue;
      Matrix<T> whole = upper ? Matrix<T>(a[i].adjoint()) : a[i];
      for (Eigen::Index row = 0; row < whole.rows(); ++row) {
        whole(row, row) = std::real(whole(row, row));
        for (Eigen::Index j = row + 1; j < whole.cols(); ++j) {
          whole(row, j) = Eigen::numext::conj(whole(j, row));
        }
      }
      if (!decomposes<T>("linalg_eigh", whole)) {
        values.append(Eigen::VectorXd::Constant(whole.rows(), kNotANumber));
        if (wanted) vectors.append(Matrix<T>::Identity(whole.rows(), whole.rows()));
        continue;
      }
      const double scale = scale_of(whole);
      const Hessenberg<T> reduced = hessenberg<T>(whole / scale);
      Eigen::SelfAdjointEigenSolver<ByColumns<double>> solver;
      solver.computeFromTridiagonal(reduced.h.diagonal().real().eval(),
                                    reduced.h.diagonal(-1).real().eval());
      values.append((solver.eigenvalues() * scale).eval());
      if (wanted)
        vectors.append(reduced.q.lazyProduct(solver.eigenvectors().template cast<T>()).eval());
    }
    values.store();
    if (wanted) vectors.store();
  });
}

}  // namespace

void add_symmetric_spectrum_kernels(CpuKernelTable& table) {
  table.set(KernelId::kEigh, eigh_kernel);
}

}  // namespace shardlab
