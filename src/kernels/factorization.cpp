// Factorisations of the last two dims, packed as LAPACK does: Householder's reflections, and
// symmetric matrices as L D L^H. Eigenvalues: spectrum.cpp; singular values: singular_values.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"
#include "kernels/matrices.h"
#include "kernels/reflections.h"

namespace shardlab {

namespace {

// linalg_qr(A, mode): Q, R
void qr_kernel(const KernelCall& call) {
  const std::string* text = optional_text_arg(call, 1);
  const std::string mode = text == nullptr ? "reduced" : *text;
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<T> q(call.outputs[0]), r(call.outputs[1]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const PackedQr<T> qr = packed_qr<T>(a[i]);
      const Eigen::Index m = qr.packed.rows(), kept = std::min(m, qr.packed.cols());
      const Eigen::Index columns = mode == "complete" ? m : kept;
      if (mode != "r") q.append(qr.q(columns));
      Matrix<T> upper = Matrix<T>::Zero(columns, qr.packed.cols());
      for (Eigen::Index row = 0; row < kept; ++row) {
        for (Eigen::Index j = row; j < upper.cols(); ++j) upper(row, j) = qr.packed(row, j);
      }
      r.append(upper);
    }
    if (mode != "r") q.store();
    r.store();
  });
}

// geqrf(A): R and below it the reflections, their factors
void geqrf_kernel(const KernelCall& call) {
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<T> packed(call.outputs[0]), factors(call.outputs[1]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const PackedQr<T> qr = packed_qr<T>(a[i]);
      packed.append(qr.packed);
      for (const T factor : qr.factors) factors.append_number(factor);
    }
    store_all(packed, factors);
  });
}

// linalg_householder_product(input, tau): the first columns of the product of the reflections
void householder_product_kernel(const KernelCall& call) {
  const auto product = []<typename M>(const M& packed, const M& factors) {
    M q = M::Identity(packed.rows(), packed.cols());
    for (Eigen::Index k = factors.rows(); k-- > 0;) unpacked(packed, k, factors(k, 0)).from_left(q);
    return q;
  };
  each_matrix(call.outputs[0], product, tensor_arg(call, 0), as_columns(tensor_arg(call, 1)));
}

// ormqr(self, tau, other, left, transpose): other times the product of the reflections
void ormqr_kernel(const KernelCall& call) {
  const bool left = scalar_arg(call, 3).to_bool(), turned = scalar_arg(call, 4).to_bool();
  const auto product = [&]<typename M>(const M& packed, const M& factors, M x) {
    const Eigen::Index count = factors.rows();
    for (Eigen::Index step = 0; step < count; ++step) {
      // Q^H x and x Q begin with the first of the reflections.
      const Eigen::Index k = left == turned ? step : count - 1 - step;
      const auto factor = turned ? Eigen::numext::conj(factors(k, 0)) : factors(k, 0);
      const auto reflection = unpacked(packed, k, factor);
      left ? reflection.from_left(x) : reflection.from_right(x);
    }
    return x;
  };
  each_matrix(call.outputs[0], product, tensor_arg(call, 0), as_columns(tensor_arg(call, 1)),
              tensor_arg(call, 2));
}

// Symmetric (or Hermitian) matrices as L D L^T, in the lower triangle; Bunch and Kaufman choose
// pivots of one number or of two. A pivot is the row it was exchanged with, from 1 on; both numbers
// of a pair are negative.
template <typename T>
class Bunch {
 public:
  Bunch(Matrix<T> a, bool hermitian)
      : a_(std::move(a)), hermitian_(hermitian && !Real<T>), n_(a_.rows()) {
    a_.template triangularView<Eigen::StrictlyUpper>().setZero();
    for (Eigen::Index k = 0; k < n_; k += step_) eliminate(k);
  }
  const Matrix<T>& packed() const { return a_; }
  const std::vector<std::int64_t>& pivots() const { return pivots_; }
  std::int64_t info() const { return info_; }

 private:
  double diagonal_size(Eigen::Index i) const {
    return hermitian_ ? std::abs(std::real(a_(i, i))) : pivot_size(a_(i, i));
  }
  T turned(T x) const { return hermitian_ ? Eigen::numext::conj(x) : x; }

  // The row of the largest number below the diagonal, n where there is none.
  Eigen::Index largest_below(Eigen::Index k) const {
    Eigen::Index best = k + 1;
    for (Eigen::Index i = k + 2; i < n_; ++i) {
      if (pivot_size(a_(i, k)) > pivot_size(a_(best, k))) best = i;
    }
    return best;
  }
  // The largest number of row `row` off the diagonal, in the rest of the matrix from k on.
  double largest_off_diagonal(Eigen::Index row, Eigen::Index k) const {
    double largest = 0;
    for (Eigen::Index j = k; j < row; ++j) largest = std::max(largest, pivot_size(a_(row, j)));
    for (Eigen::Index i = row + 1; i < n_; ++i) largest = std::max(largest, pivot_size(a_(i, row)));
    return largest;
  }

  void eliminate(Eigen::Index k) {
    const double alpha = (1 + std::sqrt(17.0)) / 8, own = diagonal_size(k);
    const Eigen::Index row = largest_below(k);
    const double below = row < n_ ? pivot_size(a_(row, k)) : 0;
    step_ = 1;
    if (std::max(own, below) == 0 || std::isnan(own)) {
      if (info_ == 0) info_ = k + 1;
      pivots_.push_back(k + 1);
      return;
    }
    Eigen::Index with = k;
    if (own < alpha * below) {
      const double beside = largest_off_diagonal(row, k);
      if (own < alpha * below * (below / beside)) {
        with = row;
        step_ = diagonal_size(row) >= alpha * beside ? 1 : 2;
      }
    }
    exchange(k, k + step_ - 1, with);
    step_ == 1 ? by_one(k) : by_two(k);
    for (int i = 0; i < step_; ++i) pivots_.push_back(step_ == 1 ? with + 1 : -(with + 1));
  }

  // Rows and columns `from` and `to` of the rest from k on.
  void exchange(Eigen::Index k, Eigen::Index from, Eigen::Index to) {
    if (from == to) return;
    for (Eigen::Index i = to + 1; i < n_; ++i) std::swap(a_(i, from), a_(i, to));
    for (Eigen::Index j = from + 1; j < to; ++j) {
      const T kept = turned(a_(j, from));
      a_(j, from) = turned(a_(to, j));
      a_(to, j) = kept;
    }
    a_(to, from) = turned(a_(to, from));
    std::swap(a_(from, from), a_(to, to));
    if (from != k) std::swap(a_(from, k), a_(to, k));
  }

  void by_one(Eigen::Index k) {
    const Eigen::Index rest = n_ - k - 1;
    const T pivot = hermitian_ ? T(std::real(a_(k, k))) : a_(k, k);
    a_(k, k) = pivot;
    for (Eigen::Index j = k + 1; j <= k + rest; ++j) {
      for (Eigen::Index i = j; i < n_; ++i) a_(i, j) -= a_(i, k) * turned(a_(j, k)) / pivot;
    }
    a_.col(k).tail(rest) /= pivot;
  }

  // The pair D = [[p, conj(q)], [q, r]]: the rest loses X D^-1 X^H.
  void by_two(Eigen::Index k) {
    const T p = a_(k, k), q = a_(k + 1, k), r = a_(k + 1, k + 1);
    const T size = p * r - q * turned(q);
    for (Eigen::Index j = k + 2; j < n_; ++j) {
      const T first = (a_(j, k) * r - a_(j, k + 1) * q) / size;
      const T second = (a_(j, k + 1) * p - a_(j, k) * turned(q)) / size;
      for (Eigen::Index i = j; i < n_; ++i) {
        a_(i, j) -= a_(i, k) * turned(first) + a_(i, k + 1) * turned(second);
      }
      a_(j, k) = first;
      a_(j, k + 1) = second;
    }
  }

  Matrix<T> a_;
  bool hermitian_;
  Eigen::Index n_;
  int step_ = 1;
  std::vector<std::int64_t> pivots_;
  std::int64_t info_ = 0;
};

// linalg_ldl_factor_ex(self, *, hermitian, check_errors): LD, pivots, info
void ldl_factor_kernel(const KernelCall& call) {
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<T> packed(call.outputs[0]);
    Written<std::int64_t> pivots(call.outputs[1]), info(call.outputs[2]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const Bunch<T> factors(a[i], scalar_arg(call, 1).to_bool());
      packed.append(factors.packed());
      for (const std::int64_t pivot : factors.pivots()) pivots.append_number(pivot);
      info.append_number(factors.info());
    }
    store_all(packed, pivots, info);
  });
}

void require_ldl_pivot(bool right, std::int64_t pivot, Eigen::Index n) {
  if (right) return;
  fail(Fix{"give the pivots that linalg_ldl_factor gave, which count from 1"},
       "pivot {} is not that of a symmetric matrix of {} rows", pivot, n);
}

// X with L D L^T X = B, from the factors that Bunch packs.
template <typename T>
Matrix<T> ldl_solved(const Matrix<T>& a, const std::int64_t* pivots, Matrix<T> b, bool hermitian) {
  const Eigen::Index n = a.rows();
  const auto turned = [&](T x) { return hermitian ? Eigen::numext::conj(x) : x; };
  std::vector<Eigen::Index> starts;
  for (Eigen::Index k = 0; k < n;) {
    const std::int64_t pivot = pivots[k];
    require_ldl_pivot(pivot != 0 && pivot >= -n && pivot <= n, pivot, n);
    const Eigen::Index step = pivot < 0 ? 2 : 1, row = std::abs(pivot) - 1;
    require_ldl_pivot(k + step <= n, pivot, n);
    starts.push_back(k);
    b.row(k + step - 1).swap(b.row(row));
    for (Eigen::Index i = k + step; i < n; ++i) {
      for (Eigen::Index s = 0; s < step; ++s) b.row(i) -= a(i, k + s) * b.row(k + s);
    }
    if (step == 1) {
      b.row(k) /= a(k, k);
    } else {
      const T p = a(k, k), q = a(k + 1, k), r = a(k + 1, k + 1), size = p * r - q * turned(q);
      const auto first = b.row(k).eval(), second = b.row(k + 1).eval();
      b.row(k) = (r * first - turned(q) * second) / size;
      b.row(k + 1) = (p * second - q * first) / size;
    }
    k += step;
  }
  for (std::size_t index = starts.size(); index-- > 0;) {
    const Eigen::Index k = starts[index];
    const std::int64_t pivot = pivots[k];
    const Eigen::Index step = pivot < 0 ? 2 : 1;
    for (Eigen::Index i = k + step; i < n; ++i) {
      for (Eigen::Index s = 0; s < step; ++s) b.row(k + s) -= turned(a(i, k + s)) * b.row(i);
    }
    b.row(k + step - 1).swap(b.row(std::abs(pivot) - 1));
  }
  return b;
}

// linalg_ldl_solve(LD, pivots, B, *, hermitian)
void ldl_solve_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  with_wide_type(out, [&]<typename T>(T) {
    const Dims batch = front_of(out, 2);
    const Batch<T> packed(tensor_arg(call, 0), batch), b(tensor_arg(call, 2), batch);
    const Pivots pivots(tensor_arg(call, 1), batch);
    const bool hermitian = scalar_arg(call, 3).to_bool() && !Real<T>;
    Written<T> result(out);
    for (std::int64_t i = 0; i < b.count(); ++i) {
      result.append(ldl_solved<T>(packed[i], pivots[i], b[i], hermitian));
    }
    result.store();
  });
}

// _linalg_check_errors(info, api_name, *, is_matrix): no results
void check_errors_kernel(const KernelCall& call) {
  const RowMajor<std::int64_t> info(tensor_arg(call, 0));
  for (std::int64_t i = 0; i < tensor_arg(call, 0).numel(); ++i) {
    if (info.data()[i] == 0) continue;
    fail(ErrorKind::kRuntime,
         Fix{"give other matrices, or use the op that ends in _ex, which reports them"},
         "{}: matrix {} of the batch could not be factorised, info {}", *optional_text_arg(call, 1),
         i, info.data()[i]);
  }
}

}  // namespace

void add_factorization_kernels(CpuKernelTable& table) {
  table.set(KernelId::kGeqrf, geqrf_kernel);
  table.set(KernelId::kHouseholderProduct, householder_product_kernel);
  table.set(KernelId::kLdlFactorEx, ldl_factor_kernel);
  table.set(KernelId::kLdlSolve, ldl_solve_kernel);
  table.set(KernelId::kLinalgCheckErrors, check_errors_kernel);
  table.set(KernelId::kOrmqr, ormqr_kernel);
  table.set(KernelId::kQr, qr_kernel);
}

}  // namespace shardlab
