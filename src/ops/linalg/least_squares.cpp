// Composite ops over factorisations: polar factors, the root of a hermitian matrix, least squares.
#include "ops/family.h"
#include "ops/linalg/matrices.h"

namespace shardlab {
namespace {

using linalg::adjoint;

DTensor scaled_columns(Calls& calls, const DTensor& x, const DTensor& factors) {
  return calls.one("mul.Tensor", {x, calls.one("unsqueeze", {factors, -2})});
}

/// linalg_polar(A) = U H: U has orthonormal columns, H is hermitian
Results polar(Calls& calls, const Arguments& args) {
  const Dims& shape = args[0].tensor().shape();
  if (shape.size() < 2 || shape[shape.size() - 2] < shape.back()) {
    fail(Fix{"give matrices of at least as many rows as columns"},
         "linalg_polar: the tensor is [{}]; its matrices must not be wider than high",
         text_of_list(shape, ", "));
  }
  const Results svd = calls("_linalg_svd", {args[0]});
  const DTensor &u = svd[0].tensor(), &s = svd[1].tensor(), &vh = svd[2].tensor();
  const DTensor v = adjoint(calls, vh);
  return {matmul(calls, u, vh), matmul(calls, scaled_columns(calls, v, s), vh)};
}

/// linalg_matrix_sqrth(self): of a hermitian matrix without negative eigenvalues. Both halves of it
/// count, so that both have a gradient.
Results root_of_hermitian(Calls& calls, const Arguments& args) {
  const Expression given(calls, args[0].tensor());
  const Expression turned(calls, adjoint(calls, args[0].tensor()));
  const Results eigh = calls("_linalg_eigh", {(given + turned) / 2.0});
  const DTensor& vectors = eigh[1].tensor();
  const DTensor roots = calls.one("sqrt", {calls.one("clamp", {eigh[0], 0})});
  const DTensor scaled = scaled_columns(calls, vectors, roots);
  return {matmul(calls, scaled, adjoint(calls, vectors))};
}

// linalg_lstsq(self, b, rcond, *, driver)

/// The further results that a driver of LAPACK gives.
struct Driver {
  bool residuals, rank, singular_values;
};

Driver driver_of(const Argument& name) {
  const std::string text = name.is_string() ? name.string() : "gelsy";
  if (text == "gels") return {true, false, false};
  if (text == "gelsy") return {false, true, false};
  if (text == "gelsd" || text == "gelss") return {true, true, true};
  fail(Fix{"use gels, gelsy, gelsd or gelss"}, "linalg_lstsq: there is no driver '{}'", text);
}

/// Whether b is a vector for each matrix and not a matrix.
bool is_vector_for(const DTensor& a, const DTensor& b) {
  if (b.ndim() == 1) return true;
  const Dims &rows = a.shape(), &values = b.shape();
  return b.ndim() + 1 == a.ndim() && std::equal(values.begin(), values.end(), rows.begin());
}

Results least_squares(Calls& calls, const Arguments& args) {
  const DTensor& a = args[0].tensor();
  const bool vector = is_vector_for(a, args[1].tensor());
  const DTensor b = vector ? calls.one("unsqueeze", {args[1], -1}) : args[1].tensor();
  if (a.ndim() < 2 || b.ndim() < 2 || a.shape()[a.ndim() - 2] != b.shape()[b.ndim() - 2]) {
    fail(Fix{"give matrices with as many rows"},
         "linalg_lstsq takes matrices with as many rows, not tensors of {} and {} dims", a.ndim(),
         b.ndim());
  }
  const Driver driver = driver_of(args[3]);
  const std::int64_t rows = a.shape()[a.ndim() - 2], columns = a.shape().back();
  const double epsilon =
      2 * unit_roundoff(a.dtype()) * static_cast<double>(std::max(rows, columns));
  const double bound = args[2].is_none() ? epsilon : args[2].to_double();
  const DTensor inverse = calls.one("linalg_pinv.atol_rtol_float", {a, {}, bound, false});
  DTensor solution = matmul(calls, inverse, b);
  const DTensor values = calls("_linalg_svd", {a, false, false})[1].tensor();
  const DTensor none = calls.one("new_zeros", {values, Dims{0}});
  // In descending order; a matrix of no columns has none.
  const DTensor largest = calls.one("slice.Tensor", {values, -1, 0, 1});
  const DTensor counted =
      calls.one("gt.Tensor", {values, calls.one("mul.Scalar", {largest, bound})});
  const DTensor rank = calls.one("sum.dim_IntList", {counted, Dims{-1}, false, DType::kI64});
  DTensor residuals = none;
  const bool full =
      !driver.rank || rank.numel() == 0 || integer_in(calls, calls.one("min", {rank})) == columns;
  if (driver.residuals && rows > columns && full) {
    const Expression off = Expression(calls, matmul(calls, a, solution)).minus({calls, b});
    const Expression size = off.of("abs");
    residuals = calls.one("sum.dim_IntList", {size * size, Dims{-2}});
  }
  if (vector) solution = calls.one("squeeze.dim", {solution, -1});
  return {solution, residuals,
          driver.rank ? rank : calls.one("new_zeros", {values, Dims{0}, DType::kI64}),
          driver.singular_values ? values : none};
}

// Sorted by name.
// clang-format off
constexpr Row kLeastSquares[] = {
    composite("linalg_lstsq"_op, least_squares, "linalg_pinv", kDataDependent),
    composite("linalg_matrix_sqrth"_op, root_of_hermitian, "_linalg_eigh"),
    composite("linalg_polar"_op, polar, "_linalg_svd"),
};
// clang-format on

}  // namespace

void register_least_squares(OpRegistry& registry) { add_rows(registry, kLeastSquares); }

}  // namespace shardlab
