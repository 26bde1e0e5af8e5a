// Factors of the last two dims, one triangle above the other, and solutions by them. Choices are
// those of LAPACK: rows are exchanged for the largest pivot.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"
#include "kernels/matrices.h"

namespace shardlab {

namespace {

// L and U in one matrix, and the row that each row was exchanged with, in this order.
template <typename T>
struct Factors {
  Matrix<T> lu;
  std::vector<std::int64_t> exchanged;
  std::int64_t info = 0;  ///< 0, or the first pivot that is 0, from 1 on

  double parity() const {
    double sign = 1;
    for (std::size_t i = 0; i < exchanged.size(); ++i) {
      if (exchanged[i] != static_cast<std::int64_t>(i)) sign = -sign;
    }
    return sign;
  }
};

template <typename T>
Factors<T> factorise(Matrix<T> a, bool pivot = true) {
  Factors<T> factors;
  const Eigen::Index steps = std::min(a.rows(), a.cols());
  for (Eigen::Index k = 0; k < steps; ++k) {
    Eigen::Index best = k;
    for (Eigen::Index i = k + 1; pivot && i < a.rows(); ++i) {
      if (pivot_size(a(i, k)) > pivot_size(a(best, k))) best = i;
    }
    factors.exchanged.push_back(best);
    a.row(k).swap(a.row(best));
    if (a(k, k) == T(0)) {
      if (factors.info == 0) factors.info = k + 1;
      continue;
    }
    for (Eigen::Index i = k + 1; i < a.rows(); ++i) {
      a(i, k) /= a(k, k);
      for (Eigen::Index j = k + 1; j < a.cols(); ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
  factors.lu = std::move(a);
  return factors;
}

template <typename T>
void append_exchanged(Written<std::int64_t>& pivots, const Factors<T>& factors) {
  for (const std::int64_t row : factors.exchanged) pivots.append_number(row + 1);
}

// Solutions of A x = B from the factors of A; `turned`: of the transpose.
template <typename T>
Matrix<T> solve(const Factors<T>& factors, Matrix<T> b, bool turned) {
  const std::size_t count = factors.exchanged.size();
  const auto exchange = [&](std::size_t i) {
    b.row(static_cast<Eigen::Index>(i)).swap(b.row(factors.exchanged[i]));
  };
  if (b.size() == 0) return b;
  if (!turned) {
    for (std::size_t i = 0; i < count; ++i) exchange(i);
    solve_triangle<T>(factors.lu, b, false, true);
    solve_triangle<T>(factors.lu, b, true, false);
    return b;
  }
  const Matrix<T> other = factors.lu.transpose();
  solve_triangle<T>(other, b, false, false);
  solve_triangle<T>(other, b, true, true);
  for (std::size_t i = count; i-- > 0;) exchange(i);
  return b;
}

// linalg_lu_factor_ex(A, *, pivot, check_errors): LU, pivots, info
void lu_factor_kernel(const KernelCall& call) {
  const bool pivot = scalar_arg(call, 1).to_bool();
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<T> lu(call.outputs[0]);
    Written<std::int64_t> pivots(call.outputs[1]), info(call.outputs[2]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const Factors<T> factors = factorise<T>(a[i], pivot);
      lu.append(factors.lu);
      append_exchanged(pivots, factors);
      info.append_number(factors.info);
    }
    store_all(lu, pivots, info);
  });
}

// The reference factorises the transpose of a real matrix, whose layout it needs.
template <typename T>
Factors<T> factors_of(const Matrix<T>& a) {
  if constexpr (Real<T>) return factorise<T>(a.transpose());
  return factorise<T>(a);
}

// The factors of each matrix, as results `first` and `first + 1`, after of(factors), which writes
// the results before them.
template <typename T, typename Of>
void factorise_each(const KernelCall& call, std::size_t first, Of of) {
  const Batch<T> a(tensor_arg(call, 0));
  Written<T> lu(call.outputs[first]);
  Written<std::int64_t> pivots(call.outputs[first + 1]);
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const Factors<T> factors = factors_of<T>(a[i]);
    of(factors);
    lu.append(factors.lu);
    append_exchanged(pivots, factors);
  }
  store_all(lu, pivots);
}

// _linalg_det(A): determinant, LU, pivots
void det_kernel(const KernelCall& call) {
  with_wide_type(tensor_arg(call, 0), [&]<typename T>(T) {
    Written<T> result(call.outputs[0]);
    factorise_each<T>(call, 1, [&](const Factors<T>& factors) {
      result.append_number(T(factors.parity()) * factors.lu.diagonal().prod());
    });
    result.store();
  });
}

// _linalg_slogdet(A): sign, logarithm of the size, LU, pivots
void slogdet_kernel(const KernelCall& call) {
  with_wide_type(tensor_arg(call, 0), [&]<typename T>(T) {
    Written<T> sign(call.outputs[0]);
    Written<double> size(call.outputs[1]);
    factorise_each<T>(call, 2, [&](const Factors<T>& factors) {
      T direction = T(factors.parity());
      double logs = 0;
      // Indices, not iterators: Eigen's refer to the first element, which a matrix of size 0 does
      // not have.
      for (Eigen::Index i = 0; i < factors.lu.rows(); ++i) {
        const T pivot = factors.lu(i, i);
        logs += std::log(std::abs(pivot));
        direction *= pivot == T(0) ? T(0) : pivot / std::abs(pivot);
      }
      sign.append_number(direction);
      size.append_number(logs);
    });
    store_all(sign, size);
  });
}

// linalg_inv_ex(A, *, check_errors): inverse, info
void inv_kernel(const KernelCall& call) {
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    Written<T> inverse(call.outputs[0]);
    Written<std::int64_t> info(call.outputs[1]);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const Factors<T> factors = factorise<T>(a[i]);
      const Eigen::Index n = factors.lu.rows();
      inverse.append(solve<T>(factors, Matrix<T>::Identity(n, n), false));
      info.append_number(factors.info);
    }
    store_all(inverse, info);
  });
}

// _linalg_solve_ex(A, B, *, left, check_errors): solution, LU, pivots, info
void solve_kernel(const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &other = tensor_arg(call, 1);
  const bool left = scalar_arg(call, 2).to_bool();
  const bool vector =
      call.outputs[0].dim() + 1 == self.dim() ||
      (other.dim() < 2 || (other.dim() + 1 == self.dim() && other.shape() == front_of(self, 1)));
  with_wide_type(self, [&]<typename T>(T) {
    Written<T> result(call.outputs[0]), lu(call.outputs[1]);
    Written<std::int64_t> pivots(call.outputs[2]), info(call.outputs[3]);
    const Batch<T> matrices(self), factored(self, front_of(call.outputs[0], vector ? 1 : 2));
    const Batch<T> b(vector ? as_columns(other) : other, front_of(call.outputs[0], vector ? 1 : 2));
    for (std::int64_t i = 0; i < matrices.count(); ++i) {
      const Factors<T> factors = factorise<T>(matrices[i]);
      lu.append(factors.lu);
      append_exchanged(pivots, factors);
      info.append_number(factors.info);
    }
    for (std::int64_t i = 0; i < b.count(); ++i) {
      const Factors<T> factors = factorise<T>(factored[i]);
      if (left) {
        result.append(solve<T>(factors, b[i], false));
      } else {
        result.append(Matrix<T>(solve<T>(factors, b[i].transpose(), true).transpose()));
      }
    }
    store_all(result, lu, pivots, info);
  });
}

template <typename T>
Factors<T> given_factors(Matrix<T> lu, const std::int64_t* pivots) {
  Factors<T> factors{std::move(lu), {}};
  for (Eigen::Index k = 0; k < std::min(factors.lu.rows(), factors.lu.cols()); ++k) {
    if (pivots[k] < 1 || pivots[k] > factors.lu.rows()) {
      fail(Fix{"give the pivots that linalg_lu_factor gave, which count from 1"},
           "pivot {} is not a row of a matrix of {} rows", pivots[k], factors.lu.rows());
    }
    factors.exchanged.push_back(pivots[k] - 1);
  }
  return factors;
}

// linalg_lu_solve(LU, pivots, B, *, left, adjoint)
void lu_solve_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const bool left = scalar_arg(call, 3).to_bool(), adjoint = scalar_arg(call, 4).to_bool();
  with_wide_type(out, [&]<typename T>(T) {
    const Dims batch = front_of(out, 2);
    const Batch<T> lu(tensor_arg(call, 0), batch), b(tensor_arg(call, 2), batch);
    const Pivots pivots(tensor_arg(call, 1), batch);
    Written<T> result(out);
    for (std::int64_t i = 0; i < b.count(); ++i) {
      const Factors<T> factors = given_factors<T>(lu[i], pivots[i]);
      // x A = B is A' x' = B'; the adjoint is the transpose of the conjugate.
      Matrix<T> given = left ? b[i] : Matrix<T>(b[i].transpose());
      if (adjoint) given = Matrix<T>(given.conjugate());
      Matrix<T> x = solve<T>(factors, given, left == adjoint);
      if (adjoint) x = Matrix<T>(x.conjugate());
      if (left) {
        result.append(x);
      } else {
        result.append(Matrix<T>(x.transpose()));
      }
    }
    result.store();
  });
}

template <typename T>
Matrix<T> permutation(const Factors<T>& factors, Eigen::Index rows) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = 0; i < factors.exchanged.size(); ++i) {
    std::swap(order[i], order[static_cast<std::size_t>(factors.exchanged[i])]);
  }
  Matrix<T> p = Matrix<T>::Zero(rows, rows);
  for (std::size_t i = 0; i < order.size(); ++i) p(order[i], static_cast<Eigen::Index>(i)) = T(1);
  return p;
}

template <typename T>
Matrix<T> lower_of(const Matrix<T>& lu) {
  const Eigen::Index k = std::min(lu.rows(), lu.cols());
  Matrix<T> lower = lu.leftCols(k);
  for (Eigen::Index i = 0; i < lower.rows(); ++i) {
    for (Eigen::Index j = i; j < k; ++j) lower(i, j) = i == j ? T(1) : T(0);
  }
  return lower;
}

template <typename T>
Matrix<T> upper_of(const Matrix<T>& lu) {
  Matrix<T> upper = lu.topRows(std::min(lu.rows(), lu.cols()));
  for (Eigen::Index i = 0; i < upper.rows(); ++i) {
    for (Eigen::Index j = 0; j < std::min(i, upper.cols()); ++j) upper(i, j) = T(0);
  }
  return upper;
}

template <typename T, typename FactorsOf>
void unpack(const KernelCall& call, std::int64_t count, bool data, bool pivots, FactorsOf of) {
  const auto& outputs = call.outputs;
  Written<T> p(outputs[0]), lower(outputs[1]), upper(outputs[2]);
  for (std::int64_t i = 0; i < count; ++i) {
    const Factors<T> factors = of(i);
    if (pivots && outputs[0].numel() > 0) p.append(permutation(factors, factors.lu.rows()));
    if (data) lower.append(lower_of(factors.lu));
    if (data) upper.append(upper_of(factors.lu));
  }
  if (pivots) p.store();
  if (data) lower.store();
  if (data) upper.store();
}

// linalg_lu(A, *, pivot): P, L, U; without pivots P is empty
void lu_kernel(const KernelCall& call) {
  const bool pivot = scalar_arg(call, 1).to_bool();
  with_matrices(call, [&]<typename T>(const Batch<T>& a) {
    unpack<T>(call, a.count(), true, pivot,
              [&](std::int64_t i) { return factorise<T>(a[i], pivot); });
  });
}

// lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots): P, L, U
void lu_unpack_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_wide_type(self, [&]<typename T>(T) {
    const Batch<T> lu(self);
    const bool exchanged = scalar_arg(call, 3).to_bool();
    std::optional<Pivots> pivots;  // read only where they are requested
    if (exchanged) pivots.emplace(tensor_arg(call, 1), front_of(self, 2));
    unpack<T>(call, lu.count(), scalar_arg(call, 2).to_bool(), exchanged, [&](std::int64_t i) {
      return pivots ? given_factors<T>(lu[i], (*pivots)[i]) : Factors<T>{lu[i], {}};
    });
  });
}

}  // namespace

void add_linalg_kernels(CpuKernelTable& table) {
  table.set(KernelId::kDet, det_kernel);
  table.set(KernelId::kInvEx, inv_kernel);
  table.set(KernelId::kLu, lu_kernel);
  table.set(KernelId::kLuFactorEx, lu_factor_kernel);
  table.set(KernelId::kLuSolve, lu_solve_kernel);
  table.set(KernelId::kLuUnpack, lu_unpack_kernel);
  table.set(KernelId::kSlogdet, slogdet_kernel);
  table.set(KernelId::kSolveEx, solve_kernel);
}

}  // namespace shardlab
