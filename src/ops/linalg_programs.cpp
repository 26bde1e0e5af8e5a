// Linear algebra that the reference composes of its factorisations: inverses, determinants,
// solutions and norms of matrices, by the same steps.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/fix.h"
#include "ops/arguments.h"
#include "ops/gradient_math.h"
#include "ops/matmul.h"
#include "ops/register.h"
#include "ops/rows.h"
#include "ops/view_meta.h"

namespace shardlab {
namespace {

/// The first `count` results of a factorisation whose last result tells what went wrong, once that
/// is nothing.
Results checked(Calls& calls, Results results, std::size_t count, const char* name,
                const DTensor& a) {
  calls("_linalg_check_errors", {results.back(), name, a.ndim() == 2});
  results.resize(count);
  return results;
}

/// linalg_inv(A), inverse(self)
Results inverse(Calls& calls, const Arguments& args) {
  return checked(calls, calls("linalg_inv_ex", {args[0]}), 1, "linalg.inv", args[0].tensor());
}

/// linalg_cholesky(self, *, upper)
Results cholesky(Calls& calls, const Arguments& args) {
  return checked(calls, calls("linalg_cholesky_ex", {args[0], args[1]}), 1, "linalg.cholesky",
                 args[0].tensor());
}

/// linalg_lu_factor(A, *, pivot)
Results lu_factor(Calls& calls, const Arguments& args) {
  return checked(calls, calls("linalg_lu_factor_ex", {args[0], args[1]}), 2,
                 "torch.linalg.lu_factor", args[0].tensor());
}

/// linalg_ldl_factor(self, *, hermitian)
Results ldl_factor(Calls& calls, const Arguments& args) {
  return checked(calls, calls("linalg_ldl_factor_ex", {args[0], args[1]}), 2,
                 "torch.linalg.ldl_factor", args[0].tensor());
}

/// linalg_solve(A, B, *, left)
Results solve(Calls& calls, const Arguments& args) {
  return checked(calls, calls("_linalg_solve_ex", {args[0], args[1], args[2]}), 1,
                 "torch.linalg.solve", args[0].tensor());
}

/// linalg_solve_ex(A, B, *, left, check_errors)
Results solve_unchecked(Calls& calls, const Arguments& args) {
  const Results results = calls("_linalg_solve_ex", args);
  return {results[0], results[3]};
}

/// linalg_det(A), det(self)
Results determinant(Calls& calls, const Arguments& args) {
  return {calls("_linalg_det", {args[0]})[0]};
}

/// linalg_slogdet(A), slogdet(self)
Results log_determinant(Calls& calls, const Arguments& args) {
  const Results results = calls("_linalg_slogdet", {args[0]});
  return {results[0], results[1]};
}

/// logdet(self): of a negative determinant there is none.
Results logdet(Calls& calls, const Arguments& args) {
  const Results results = log_determinant(calls, args);
  const Expression sign(calls, results[0].tensor()), size(calls, results[1].tensor());
  if (is_complex(sign.value().dtype())) {
    return {(size + sign.of("aten::log")).value()};
  }
  return {size.filled(sign.eq(-1), std::numeric_limits<double>::quiet_NaN()).value()};
}

// Vectors are computed where a gradient needs them.

/// linalg_svd(A, full_matrices, *, driver)
Results svd_of_three(Calls& calls, const Arguments& args) {
  return calls("_linalg_svd", {args[0], args[1], true, args[2]});
}
/// linalg_svdvals(A, *, driver)
Results singular_values(Calls& calls, const Arguments& args) {
  const bool vectors = args[0].tensor().requires_grad();
  return {calls("_linalg_svd", {args[0], false, vectors, args[1]})[1]};
}
/// linalg_eigh(self, UPLO)
Results eigh(Calls& calls, const Arguments& args) {
  return calls("_linalg_eigh", {args[0], args[1], true});
}
/// linalg_eigvalsh(self, UPLO)
Results eigvalsh(Calls& calls, const Arguments& args) {
  return {calls("_linalg_eigh", {args[0], args[1], args[0].tensor().requires_grad()})[0]};
}

Results matrix_exponential(Calls& calls, const Arguments& args) {
  return calls("linalg_matrix_exp", args);
}
/// linalg_diagonal(A, *, offset, dim1, dim2)
Results diagonal_view(Calls& calls, const Arguments& args) { return calls("diagonal", args); }
Results matrix_product(Calls& calls, const Arguments& args) { return calls("matmul", args); }
/// pinverse(self, rcond)
Results pseudo_inverse(Calls& calls, const Arguments& args) { return calls("linalg_pinv", args); }

// Norms of matrices in two dims.

struct MatrixDims {
  Dims order;  ///< with the two last
  Dims back;   ///< undoes it
  std::int64_t rows, columns;
};

MatrixDims matrix_dims(const DTensor& x, const Argument& given) {
  const Dims dims = wrap_dims(ints_of(given), x.ndim());
  if (dims.size() != 2 || dims[0] == dims[1]) {
    fail(ErrorKind::kValue, Fix{"name two different dims"},
         "linalg_matrix_norm takes the two dims of the matrices, not [{}]", fmt::join(dims, ", "));
  }
  MatrixDims found{{}, {}, dims[0], dims[1]};
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(x.ndim()); ++d) {
    if (d != dims[0] && d != dims[1]) found.order.push_back(d);
  }
  found.order.push_back(dims[0]);
  found.order.push_back(dims[1]);
  found.back = inverse_of(found.order);
  return found;
}

DTensor in_norm_dtype(Calls& calls, const DTensor& x, const Argument& dtype) {
  return cast_to(calls, x, dtype_or(dtype, x.dtype()));
}

/// What `op` makes of the singular values of each matrix.
DTensor of_singular_values(Calls& calls, const DTensor& x, const Argument& dim, bool keep,
                           const char* op) {
  const MatrixDims dims = matrix_dims(x, dim);
  const DTensor values = calls.one("linalg_svdvals", {calls.one("permute", {x, dims.order})});
  const DTensor result = calls.one(op, {values, Dims{-1}, keep});
  if (!keep) return result;
  return calls.one("permute", {calls.one("unsqueeze", {result, -1}), dims.back});
}

/// linalg_matrix_norm(self, ord, dim, keepdim, *, dtype): 1, 2, infinity and their negatives
Results matrix_norm(Calls& calls, const Arguments& args) {
  const double order = args[1].to_double(), size = std::abs(order);
  if (size != 1 && size != 2 && !std::isinf(size)) {
    fail(ErrorKind::kValue, Fix{"use 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc'"},
         "linalg_matrix_norm: ord is {}", args[1].text());
  }
  const DTensor x = in_norm_dtype(calls, args[0].tensor(), args[4]);
  const bool keep = args[3].to_bool();
  const char* extreme = order > 0 ? "amax" : "amin";
  if (size == 2) return {of_singular_values(calls, x, args[2], keep, extreme)};
  const MatrixDims dims = matrix_dims(x, args[2]);
  const std::int64_t summed = std::isinf(size) ? dims.columns : dims.rows;
  std::int64_t compared = std::isinf(size) ? dims.rows : dims.columns;
  if (!keep && summed < compared) --compared;
  const DTensor sums = calls.one("linalg_vector_norm", {x, 1.0, Dims{summed}, keep});
  return {calls.one(extreme, {sums, Dims{compared}, keep})};
}

/// linalg_matrix_norm.str_ord(self, ord, dim, keepdim, *, dtype)
Results named_matrix_norm(Calls& calls, const Arguments& args) {
  const std::string& order = args[1].string();
  if (order == "fro") {
    matrix_dims(args[0].tensor(), args[2]);
    return calls("linalg_vector_norm", {args[0], 2, args[2], args[3], args[4]});
  }
  if (order != "nuc") {
    fail(ErrorKind::kValue, Fix{"use 'fro', 'nuc' or a number"}, "linalg_matrix_norm: ord is '{}'",
         order);
  }
  const DTensor x = in_norm_dtype(calls, args[0].tensor(), args[4]);
  return {of_singular_values(calls, x, args[2], args[3].to_bool(), "sum.dim_IntList")};
}

/// linalg_norm(self, ord, dim, keepdim, *, dtype): of vectors, or of matrices where there are two
/// dims and an order
Results vector_or_matrix_norm(Calls& calls, const Arguments& args) {
  const std::size_t ndim = args[0].tensor().ndim();
  const bool named = !args[2].is_none();
  const std::size_t dims = named ? ints_of(args[2]).size() : ndim;
  if (args[1].is_none()) {
    return calls("linalg_vector_norm", {args[0], 2.0, args[2], args[3], args[4]});
  }
  if (dims != 1 && dims != 2) {
    fail(ErrorKind::kValue, Fix{"name one or two dims: norm(x, 2, dim=-1)"},
         "linalg_norm: ord is {} for {} dims", args[1].text(), dims);
  }
  if (dims == 1) return calls("linalg_vector_norm", args);
  const Argument both = named ? args[2] : Argument(Dims{0, 1});
  return matrix_norm(calls, {args[0], args[1], both, args[3], args[4]});
}

/// linalg_norm.ord_str(self, ord, dim, keepdim, *, dtype)
Results named_norm(Calls& calls, const Arguments& args) {
  const Argument both = args[2].is_none() ? Argument(Dims{0, 1}) : args[2];
  return named_matrix_norm(calls, {args[0], args[1], both, args[3], args[4]});
}

// Tensors as matrices between their first and their last dims.

/// linalg_tensorinv(self, ind)
Results tensor_inverse(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t first = args[1].to_int();
  const std::size_t at =
      index_of(std::clamp<std::int64_t>(first, 0, static_cast<std::int64_t>(x.ndim())));
  const std::span<const std::int64_t> sizes = x.shape();
  const std::int64_t rows = product(sizes.first(at)), columns = product(sizes.subspan(at));
  if (first < 1 || rows != columns) {
    fail(ErrorKind::kValue, Fix{"give an ind that parts the dims into equal products"},
         "linalg_tensorinv: ind {} parts [{}] into {} by {}", first, fmt::join(x.shape(), ", "),
         rows, columns);
  }
  Dims shape;
  for (std::size_t d = at; d < x.ndim(); ++d) shape.push_back(x.shape()[d]);
  for (std::size_t d = 0; d < at; ++d) shape.push_back(x.shape()[d]);
  const DTensor matrix = reshape(calls, x, Dims{rows, columns});
  return {reshape(calls, inverse(calls, {matrix})[0].tensor(), shape)};
}

/// linalg_tensorsolve(self, other, dims)
Results tensor_solve(Calls& calls, const Arguments& args) {
  DTensor a = args[0].tensor();
  const DTensor& b = args[1].tensor();
  if (!args[2].is_none()) {
    Dims order;
    const Dims last = wrap_dims(ints_of(args[2]), a.ndim());
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(a.ndim()); ++d) {
      if (std::ranges::find(last, d) == last.end()) order.push_back(d);
    }
    for (const std::int64_t d : last) order.push_back(d);
    a = calls.one("permute", {a, order});
  }
  const std::size_t at = std::min(b.ndim(), a.ndim());
  const std::span<const std::int64_t> sizes = a.shape();
  const std::int64_t rows = product(sizes.first(at)), columns = product(sizes.subspan(at));
  if (rows != columns) {
    fail(ErrorKind::kValue, Fix{"give a tensor that is square between its first and last dims"},
         "linalg_tensorsolve: [{}] is {} by {}", fmt::join(a.shape(), ", "), rows, columns);
  }
  Dims shape;
  for (std::size_t d = at; d < a.ndim(); ++d) shape.push_back(a.shape()[d]);
  const DTensor matrix = reshape(calls, a, Dims{rows, columns});
  const DTensor side = reshape(calls, b, Dims{rows});
  return {reshape(calls, solve(calls, {matrix, side, true})[0].tensor(), shape)};
}

constexpr const char* kSvd = "_linalg_svd";
constexpr const char* kNorms = "linalg_vector_norm, or singular values";

// Sorted by name.
// clang-format off
constexpr Row kLinalgPrograms[] = {
    {"det", nullptr, {}, determinant, {}, {}, "_linalg_det"},
    {"inverse", nullptr, {}, inverse, {nullptr, "inverse.out"}, {}, "linalg_inv_ex"},
    {"linalg_cholesky", nullptr, {}, cholesky, {nullptr, "linalg_cholesky.out"}, {},
     "linalg_cholesky_ex"},
    {"linalg_det", nullptr, {}, determinant, {nullptr, "linalg_det.out"}, {}, "_linalg_det"},
    {"linalg_diagonal", nullptr, {}, diagonal_view, {}, {}, "diagonal"},
    {"linalg_eigh", nullptr, {}, eigh, {nullptr, "linalg_eigh.eigvals"}, {}, "_linalg_eigh"},
    {"linalg_eigvalsh", nullptr, {}, eigvalsh, {nullptr, "linalg_eigvalsh.out"}, {},
     "_linalg_eigh"},
    {"linalg_inv", nullptr, {}, inverse, {nullptr, "linalg_inv.out"}, {}, "linalg_inv_ex"},
    {"linalg_ldl_factor", nullptr, {}, ldl_factor, {nullptr, "linalg_ldl_factor.out"}, {},
     "linalg_ldl_factor_ex"},
    {"linalg_lu_factor", nullptr, {}, lu_factor, {nullptr, "linalg_lu_factor.out"}, {},
     "linalg_lu_factor_ex"},
    {"linalg_matmul", nullptr, {}, matrix_product, {nullptr, "linalg_matmul.out"}, {}, "matmul"},
    {"linalg_matrix_norm", nullptr, {}, matrix_norm, {nullptr, "linalg_matrix_norm.out"}, {},
     kNorms},
    {"linalg_matrix_norm.str_ord", nullptr, {}, named_matrix_norm,
     {nullptr, "linalg_matrix_norm.str_ord_out"}, {}, kNorms},
    {"linalg_norm", nullptr, {}, vector_or_matrix_norm, {nullptr, "linalg_norm.out"}, {}, kNorms},
    {"linalg_norm.ord_str", nullptr, {}, named_norm, {nullptr, "linalg_norm.ord_str_out"}, {},
     kNorms},
    {"linalg_slogdet", nullptr, {}, log_determinant, {nullptr, "linalg_slogdet.out"}, {},
     "_linalg_slogdet"},
    {"linalg_solve", nullptr, {}, solve, {nullptr, "linalg_solve.out"}, {}, "_linalg_solve_ex"},
    {"linalg_solve_ex", nullptr, {}, solve_unchecked, {nullptr, "linalg_solve_ex.out"}, {},
     "_linalg_solve_ex"},
    {"linalg_svd", nullptr, {}, svd_of_three, {nullptr, "linalg_svd.U"}, {}, kSvd},
    {"linalg_svdvals", nullptr, {}, singular_values, {nullptr, "linalg_svdvals.out"}, {}, kSvd},
    {"linalg_tensorinv", nullptr, {}, tensor_inverse, {nullptr, "linalg_tensorinv.out"}, {},
     "linalg_inv_ex"},
    {"linalg_tensorsolve", nullptr, {}, tensor_solve, {nullptr, "linalg_tensorsolve.out"}, {},
     "_linalg_solve_ex"},
    {"logdet", nullptr, {}, logdet, {}, {}, "_linalg_slogdet"},
    {"matrix_exp", nullptr, {}, matrix_exponential, {}, {}, "linalg_matrix_exp"},
    {"pinverse", nullptr, {}, pseudo_inverse, {}, {}, "linalg_pinv"},
    {"slogdet", nullptr, {}, log_determinant, {nullptr, "slogdet.out"}, {}, "_linalg_slogdet"},
};
// clang-format on

}  // namespace

void register_linalg_programs(OpRegistry& registry) { add_rows(registry, kLinalgPrograms); }

}  // namespace shardlab
