// Linear algebra that the reference composes of its factorisations: inverses, determinants,
// solutions and norms of matrices, by the same steps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ops/family.h"

namespace shardlab {
namespace {

/// The first `count` results of a factorisation of the first argument by an op that takes the
/// arguments at these places, once its last result, an error code, is 0. `name` is the function's
/// in errors.
template <FixedText op, std::size_t count, FixedText name, std::size_t... places>
Results checked(Calls& calls, const Arguments& args) {
  Results results = by_op<op, places...>(calls, args);
  calls("_linalg_check_errors", {results.back(), name.letters, args[0].tensor().ndim() == 2});
  results.resize(count);
  return results;
}

constexpr auto inverse = checked<"linalg_inv_ex", 1, "linalg.inv", 0>;
constexpr auto solve = checked<"_linalg_solve_ex", 1, "torch.linalg.solve", 0, 1, 2>;

/// linalg_solve_ex(A, B, *, left, check_errors)
Results solve_unchecked(Calls& calls, const Arguments& args) {
  const Results results = calls("_linalg_solve_ex", args);
  return {results[0], results[3]};
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
    return {size + sign.of("aten::log")};
  }
  return {size.filled(sign.eq(-1), std::numeric_limits<double>::quiet_NaN())};
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

// Norms of matrices in two dims.

struct MatrixDims {
  Dims order;  ///< with the two last
  Dims back;   ///< undoes it
  std::int64_t rows, columns;
};

MatrixDims matrix_dims(const DTensor& x, const Argument& given) {
  const Dims dims = wrap_dims(ints_of(given), x.ndim());
  if (dims.size() != 2 || dims[0] == dims[1]) {
    fail(Fix{"name two different dims"},
         "linalg_matrix_norm takes the two dims of the matrices, not [{}]",
         text_of_list(dims, ", "));
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

/// The result of `op` on the singular values of each matrix.
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
    fail(Fix{"use 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc'"}, "linalg_matrix_norm: ord is {}",
         args[1].text());
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
    fail(Fix{"use 'fro', 'nuc' or a number"}, "linalg_matrix_norm: ord is '{}'", order);
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
    fail(Fix{"name one or two dims: norm(x, 2, dim=-1)"}, "linalg_norm: ord is {} for {} dims",
         args[1].text(), dims);
  }
  if (dims == 1) return calls("linalg_vector_norm", args);
  const Argument both = named ? args[2] : Argument(Dims{0, 1});
  return matrix_norm(calls, {args[0], args[1], both, args[3], args[4]});
}

/// linalg_norm.ord_str(self, ord, dim, keepdim, *, dtype)
Results named_norm(Calls& calls, const Arguments& args) {
  const std::size_t ndim = args[0].tensor().ndim();
  if (args[2].is_none() && ndim != 2) {
    fail(Fix{"name the two dims of the matrices: dim=(-2, -1)"},
         "linalg_norm: ord is {} for {} dims", args[1].text(), ndim);
  }
  const Argument both = args[2].is_none() ? Argument(Dims{0, 1}) : args[2];
  return named_matrix_norm(calls, {args[0], args[1], both, args[3], args[4]});
}

// Figures for the distance of a matrix from a singular one.

/// The norm of each matrix times that of its inverse; infinite where there is none.
template <Results (*norm)(Calls&, const Arguments&)>
Results norm_by_inverse(Calls& calls, const DTensor& a, const Argument& order) {
  const Results results = calls("linalg_inv_ex", {a});
  const DTensor failures =
      calls.one("unsqueeze", {calls.one("unsqueeze", {results[1].tensor(), -1}), -1});
  const Expression singular = Expression(calls, failures).gt(0);
  const double all = std::numeric_limits<double>::infinity();
  const DTensor inverse = Expression(calls, results[0].tensor()).filled(singular, all);
  const auto norm_of = [&](const DTensor& x) {
    const Results of_x = norm(calls, {x, order, Dims{-2, -1}, false, Argument()});
    return Expression(calls, of_x[0].tensor());
  };
  const Expression own = norm_of(a), product = own * norm_of(inverse);
  return {calls.one("nan_to_num", {product, all, all, -all})};
}

/// The results for matrices without elements.
Results no_condition(Calls& calls, const DTensor& a) {
  const Dims front(a.shape().begin(), a.shape().end() - 2);
  return {calls.one("new_zeros", {a, front, real_dtype(a.dtype())})};
}

void require_matrices(const DTensor& a, std::string_view op) {
  if (a.ndim() >= 2) return;
  fail(Fix{"give a tensor [.., rows, columns]"}, "{} takes matrices, not a tensor of {} dims", op,
       a.ndim());
}

/// linalg_cond(self, p): without one, by the spectral norm
Results condition(Calls& calls, const Arguments& args) {
  const DTensor& a = args[0].tensor();
  require_matrices(a, "linalg_cond");
  if (a.numel() == 0) return no_condition(calls, a);
  const double order = args[1].is_none() ? 2 : args[1].to_double();
  if (std::abs(order) != 2) return norm_by_inverse<matrix_norm>(calls, a, order);
  const DTensor values = calls.one("linalg_svdvals", {a});
  const auto one = [&](std::int64_t from, const Argument& to) {
    return Expression(calls, calls.one("slice.Tensor", {values, -1, from, to}));
  };
  const Expression largest = one(0, 1), least = one(-1, {});
  const Expression ratio = order > 0 ? largest / least : least / largest;
  return {calls.one("squeeze.dim", {ratio, -1})};
}

/// linalg_cond.p_str(self, p)
Results named_condition(Calls& calls, const Arguments& args) {
  const DTensor& a = args[0].tensor();
  require_matrices(a, "linalg_cond");
  const std::int64_t rows = a.shape()[a.ndim() - 2], columns = a.shape().back();
  if (rows != columns) {
    fail(Fix{"give square matrices, or leave p out: the spectral norm takes any"},
         "linalg_cond: with p = \"{}\" matrices have to be square, not {} by {}", args[1].string(),
         rows, columns);
  }
  if (a.numel() == 0) return no_condition(calls, a);
  if (args[1].string() != "nuc") return norm_by_inverse<named_matrix_norm>(calls, a, args[1]);
  const Expression values(calls, calls.one("linalg_svdvals", {a}));
  const auto sum_of = [&](const Expression& x) {
    return Expression(calls, calls.one("sum.dim_IntList", {x, Dims{-1}}));
  };
  const Expression sum = sum_of(values);
  return {sum * sum_of(values.of("aten::reciprocal"))};
}

/// Number of singular values of each matrix above `atol` and above `rtol` times the largest.
Results rank_above(Calls& calls, const DTensor& a, const Expression& atol, const Expression& rtol,
                   bool hermitian) {
  const DTensor values =
      hermitian ? calls.one("linalg_eigvalsh", {a}) : calls.one("linalg_svdvals", {a});
  const Expression sizes =
      hermitian ? Expression(calls, values).of("aten::abs") : Expression(calls, values);
  const DTensor largest = calls.one("amax", {sizes, Dims{-1}, true});
  const auto in_rows = [&](const Expression& bound) {
    return Expression(calls, calls.one("unsqueeze", {bound, -1}));
  };
  const Expression least = in_rows(atol);
  const Expression share = in_rows(rtol).with("aten::mul.Tensor", largest);
  const Expression bound = least.with("aten::maximum", share);
  return {calls.one("sum.dim_IntList", {sizes.gt(bound), Dims{-1}})};
}

/// A number as a tensor on the mesh of `a`, in f64 as in the reference.
Expression bound_with(Calls& calls, const DTensor& a, double value) {
  return {calls, calls.one("new_full", {a, Dims{}, value, DType::kF64})};
}

/// linalg_matrix_rank.atol_rtol_float and .atol_rtol_tensor(self, *, atol, rtol, hermitian)
Results matrix_rank(Calls& calls, const Arguments& args) {
  const DTensor& a = args[0].tensor();
  require_matrices(a, "linalg_matrix_rank");
  const std::size_t ndim = a.ndim();
  if (a.numel() == 0) {
    const Dims front(a.shape().begin(), a.shape().end() - 2);
    return {calls.one("new_zeros", {a, front, DType::kI64})};
  }
  const auto bound_of = [&](const Argument& given) {
    if (given.is_tensor()) return Expression(calls, given.tensor());
    return bound_with(calls, a, given.is_none() ? 0.0 : given.to_double());
  };
  const Expression atol = bound_of(args[1]);
  const bool single = real_dtype(a.dtype()) == DType::kF32;
  const double step =
      single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  const std::int64_t longer = std::max(a.shape()[ndim - 1], a.shape()[ndim - 2]);
  const bool plain = args[1].is_none() || (args[1].is_scalar() && args[1].to_double() <= 0);
  const double usual = step * static_cast<double>(longer);
  Expression rtol =
      !args[2].is_none() ? bound_of(args[2]) : bound_with(calls, a, plain ? usual : 0);
  if (args[2].is_none() && args[1].is_tensor()) {
    rtol = atol.gt(0).choose(rtol, bound_with(calls, a, usual));
  }
  return rank_above(calls, a, atol, rtol, args[3].to_bool());
}

/// linalg_matrix_rank and .tol_tensor(self, tol, hermitian): a bound that is not scaled
Results matrix_rank_above(Calls& calls, const Arguments& args) {
  return matrix_rank(calls, {args[0], args[1], 0.0, args[2]});
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
  if (first < 1 || first > static_cast<std::int64_t>(x.ndim()) || rows != columns) {
    fail(Fix{"give an ind that parts the dims into equal products"},
         "linalg_tensorinv: ind is {}, which parts [{}] into {} by {}; it must be at least 1, and "
         "both parts equal",
         first, text_of_list(x.shape(), ", "), rows, columns);
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
    fail(Fix{"give a tensor that is square between its first and last dims"},
         "linalg_tensorsolve: the tensor [{}] is {} by {}; it must be square",
         text_of_list(a.shape(), ", "), rows, columns);
  }
  Dims shape;
  for (std::size_t d = at; d < a.ndim(); ++d) shape.push_back(a.shape()[d]);
  const DTensor matrix = reshape(calls, a, Dims{rows, columns});
  const DTensor side = reshape(calls, b, Dims{rows});
  return {reshape(calls, solve(calls, {matrix, side, true})[0].tensor(), shape)};
}

constexpr const char* kSvd = "_linalg_svd";
constexpr const char* kRanks = "linalg_svdvals or linalg_eigvalsh, and a count";
constexpr const char* kNorms = "linalg_vector_norm, or singular values";

// Sorted by name.
// clang-format off
constexpr Row kLinalgPrograms[] = {
    composite("det"_op, result_of<"_linalg_det", 0, 0>, "_linalg_det"),
    composite("inverse"_op, inverse, "linalg_inv_ex"),
    composite("linalg_cholesky"_op, checked<"linalg_cholesky_ex", 1, "linalg.cholesky", 0, 1>,
              "linalg_cholesky_ex"),
    composite("linalg_cond"_op, condition, kNorms),
    composite("linalg_cond.p_str"_op, named_condition, kNorms),
    composite("linalg_det"_op, result_of<"_linalg_det", 0, 0>, "_linalg_det"),
    composite("linalg_diagonal"_op, by_op<"diagonal">, "diagonal"),
    composite("linalg_eigh"_op, eigh, "_linalg_eigh"),
    composite("linalg_eigvalsh"_op, eigvalsh, "_linalg_eigh"),
    composite("linalg_inv"_op, inverse, "linalg_inv_ex"),
    composite("linalg_ldl_factor"_op,
              checked<"linalg_ldl_factor_ex", 2, "torch.linalg.ldl_factor", 0, 1>,
              "linalg_ldl_factor_ex"),
    composite("linalg_lu_factor"_op,
              checked<"linalg_lu_factor_ex", 2, "torch.linalg.lu_factor", 0, 1>,
              "linalg_lu_factor_ex"),
    composite("linalg_matmul"_op, by_op<"matmul">, "matmul"),
    composite("linalg_matrix_norm"_op, matrix_norm, kNorms),
    composite("linalg_matrix_norm.str_ord"_op, named_matrix_norm, kNorms),
    composite("linalg_matrix_rank"_op, matrix_rank_above, kRanks, kNotDifferentiable),
    composite("linalg_matrix_rank.atol_rtol_float"_op, matrix_rank, kRanks, kNotDifferentiable),
    composite("linalg_matrix_rank.atol_rtol_tensor"_op, matrix_rank, kRanks, kNotDifferentiable),
    composite("linalg_matrix_rank.tol_tensor"_op, matrix_rank_above, kRanks, kNotDifferentiable),
    composite("linalg_norm"_op, vector_or_matrix_norm, kNorms),
    composite("linalg_norm.ord_str"_op, named_norm, kNorms),
    composite("linalg_slogdet"_op, log_determinant, "_linalg_slogdet"),
    composite("linalg_solve"_op, solve, "_linalg_solve_ex"),
    composite("linalg_solve_ex"_op, solve_unchecked, "_linalg_solve_ex"),
    composite("linalg_svd"_op, svd_of_three, kSvd),
    composite("linalg_svdvals"_op, singular_values, kSvd),
    composite("linalg_tensorinv"_op, tensor_inverse, "linalg_inv_ex"),
    composite("linalg_tensorsolve"_op, tensor_solve, "_linalg_solve_ex"),
    composite("logdet"_op, logdet, "_linalg_slogdet"),
    composite("lu_solve"_op, by_op<"linalg_lu_solve", 1, 2, 0>, "linalg_lu_solve"),
    composite("matrix_exp"_op, by_op<"linalg_matrix_exp">, "linalg_matrix_exp"),
    composite("pinverse"_op, by_op<"linalg_pinv">, "linalg_pinv"),
    composite("slogdet"_op, log_determinant, "_linalg_slogdet"),
};
// clang-format on

}  // namespace

void register_linalg_programs(OpRegistry& registry) { add_rows(registry, kLinalgPrograms); }

}  // namespace shardlab
