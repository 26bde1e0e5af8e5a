// Linear algebra of matrices in the last two dims. Dims in front of them count matrices and may be
// cut; a matrix itself has to be whole. Ops that are linear in an operand let pending sums of it
// pass.
#include <algorithm>
#include <optional>

#include "ops/family.h"
#include "ops/linalg/matrices.h"

namespace shardlab {
namespace {

using namespace grad;
using namespace linalg;

// Shapes

OutputMetas meta_factored(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  const std::int64_t steps = std::min(rows_of(a), columns_of(a));
  return {square_by_columns(a), fresh(with(front_of(a), {steps}), DType::kI32),
          fresh(front_of(a), DType::kI32)};
}
OutputMetas meta_det(const MetaArgs& args) {
  const TensorMeta& a = squares(args, 0);
  return {fresh(front_of(a), a.dtype), square_by_columns(a),
          fresh(with(front_of(a), {rows_of(a)}), DType::kI32)};
}
OutputMetas meta_slogdet(const MetaArgs& args) {
  const TensorMeta& a = squares(args, 0);
  return {fresh(front_of(a), a.dtype), fresh(front_of(a), real_dtype(a.dtype)),
          square_by_columns(a), fresh(with(front_of(a), {rows_of(a)}), DType::kI32)};
}
OutputMetas meta_square_and_info(const MetaArgs& args) {
  const TensorMeta& a = squares(args, 0);
  return {square_by_columns(a), fresh(front_of(a), DType::kI32)};
}
OutputMetas meta_square_by_columns(const MetaArgs& args) {
  return {square_by_columns(squares(args, 0))};
}
OutputMetas meta_square(const MetaArgs& args) {
  const TensorMeta& a = squares(args, 0);
  return {fresh(a.shape, a.dtype)};
}

OutputMetas unpacked(const TensorMeta& a, bool data, bool pivots, DType dtype) {
  const std::int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  const auto part = [&](bool wanted, std::int64_t rows, std::int64_t columns) {
    return wanted ? fresh(with(front_of(a), {rows, columns}), dtype) : fresh({0}, dtype);
  };
  return {part(pivots, m, m), part(data, m, k), part(data, k, n)};
}
OutputMetas meta_lu(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  return unpacked(a, true, args[1].to_bool(), a.dtype);
}
/// One for each step of the factorisation, of each matrix.
void require_pivots(const MetaArgs& args, const TensorMeta& lu) {
  const Dims& shape = args.tensor(1)->shape;
  const Dims wanted = with(front_of(lu), {std::min(rows_of(lu), columns_of(lu))});
  if (shape == wanted) return;
  fail(Fix{"give the pivots that linalg_lu_factor gave"},
       "{}: pivots have shape [{}]; it must be [{}], one for each step of each matrix",
       args.op().name(), text_of_list(shape, ", "), text_of_list(wanted, ", "));
}
OutputMetas meta_lu_unpack(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  if (args[3].to_bool()) require_pivots(args, a);
  return unpacked(a, args[2].to_bool(), args[3].to_bool(), a.dtype);
}

void require_fit(const MetaArgs& args, std::int64_t size, std::int64_t wanted) {
  if (size == wanted) return;
  fail(Fix{"give right sides as long as the matrices are wide"},
       "{}: right sides of length {} do not fit matrices of {}", args.op().name(), size, wanted);
}

void require_one_dtype(const MetaArgs& args, const TensorMeta& a, const TensorMeta& b) {
  if (a.dtype == b.dtype) return;
  fail(Fix{fmt::format("cast the right sides to {}", to_string(a.dtype))},
       "{}: matrices are {} and right sides {}", args.op().name(), to_string(a.dtype),
       to_string(b.dtype));
}

/// Solutions (a at index `a`, right sides at `b`) with A left of them, or right.
OutputMeta solution(const MetaArgs& args, std::size_t a_index, std::size_t b_index, bool left) {
  const TensorMeta &a = squares(args, a_index), &b = matrices(args, b_index);
  require_one_dtype(args, a, b);
  require_fit(args, left ? rows_of(b) : columns_of(b), rows_of(a));
  return by_columns(common_front(args, a, b), rows_of(b), columns_of(b), b.dtype);
}
OutputMetas meta_lu_solve(const MetaArgs& args) {
  require_pivots(args, squares(args, 0));
  return {solution(args, 0, 2, args[3].to_bool())};
}
OutputMetas meta_solve_triangular(const MetaArgs& args) {
  return {solution(args, 0, 1, args[3].to_bool())};
}
OutputMetas meta_cholesky_solve(const MetaArgs& args) { return {solution(args, 1, 0, true)}; }
OutputMetas meta_triangular_solve(const MetaArgs& args) {
  const OutputMeta x = solution(args, 1, 0, true);
  const TensorMeta& a = *args.tensor(1);
  return {x, by_columns(front_of(x.meta), rows_of(a), columns_of(a), a.dtype)};
}

/// Whether right sides of this shape are one vector per matrix.
bool one_vector_each(const TensorMeta& a, const TensorMeta& b) {
  return b.shape.size() == 1 || (b.shape.size() + 1 == a.shape.size() && b.shape == front_of(a, 1));
}

/// _linalg_solve_ex(A, B, *, left, check_errors): B may be one vector per matrix.
OutputMetas meta_solve(const MetaArgs& args) {
  const TensorMeta &a = squares(args, 0), &b = *args.tensor(1);
  const bool vector = one_vector_each(a, b);
  require_one_dtype(args, a, b);
  OutputMetas outputs;
  if (vector) {
    require_fit(args, b.shape.back(), rows_of(a));
    outputs.push_back(fresh(with(common_front(args, a, b, 1), {b.shape.back()}), b.dtype));
  } else {
    outputs.push_back(solution(args, 0, 1, args[2].to_bool()));
  }
  outputs.push_back(square_by_columns(a));
  outputs.push_back(fresh(with(front_of(a), {rows_of(a)}), DType::kI32));
  outputs.push_back(fresh(front_of(a), DType::kI32));
  return outputs;
}

// Rules

std::vector<RuleRow> solve_rule(const RuleContext& context) {
  const bool vector = one_vector_each(context.tensors[0]->meta(), context.tensors[1]->meta());
  std::vector<RuleRow> rows = common_batch_rows(context, {2, vector ? 1U : 2U});
  add_linear_row(rows, context, 1);
  return rows;
}

std::vector<RuleRow> cholesky_solve_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = common_batch_rows(context, {2, 2});
  add_linear_row(rows, context, 0);
  return rows;
}

std::vector<RuleRow> lu_unpack_rule(const RuleContext& context) {
  return common_batch_rows(context, {2, 1});
}

std::vector<RuleRow> older_triangular_solve_rule(const RuleContext& context) {
  return common_batch_rows(context, {2, 2});
}

/// Right sides may have dims in front that the matrices lack.
std::vector<RuleRow> solve_triangular_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = common_batch_rows(context, {2, 2});
  add_linear_row(rows, context, 1);
  RuleRow averages = rows.back();
  averages.outputs[0] = averages.inputs[1] = placement_of_letter('a');
  rows.push_back(std::move(averages));
  const auto ndim = static_cast<std::int64_t>(context.tensors[1]->ndim());
  for (std::int64_t dim = 0; dim + 2 < ndim; ++dim) {
    rows.push_back({{any(dim)}, {whole(), any(dim)}});
  }
  return rows;
}

/// Matrices that have the dim themselves are cut with their right sides.
const char* solve_triangular_filter(const RuleContext& context,
                                    std::span<const Placements> inputs) {
  const Dims &a = context.tensors[0]->shape(), &b = context.tensors[1]->shape();
  for (std::size_t i = 0; i < inputs[1].size(); ++i) {
    if (!inputs[1][i].is_shard() || inputs[0][i].is_shard()) continue;
    const std::size_t from_end = b.size() - index_of(inputs[1][i].dim);
    if (from_end <= a.size() && a[a.size() - from_end] != 1) {
      return "the matrices have the dim that is cut";
    }
  }
  return nullptr;
}

// Gradients

DTensor in_matrix(Calls& calls, const DTensor& number) {
  return calls.one("aten::unsqueeze", {calls.one("aten::unsqueeze", {number, -1}), -1});
}
DTensor inverse_of(Calls& calls, const DTensor& x) {
  return calls("aten::linalg_inv_ex", {x})[0].tensor();
}

/// A^-1: -A^-H g A^-H
Gradients grad_inv(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor turned = adjoint(calls, output(context));
  const DTensor inner = product(calls, turned, product(calls, context.grads[0], turned));
  return {negate(calls, inner)};
}

/// The determinant: g conj(det) A^-H
Gradients grad_det(const GradContext& context) {
  Calls& calls = context.calls;
  if (!context.grads[0].defined()) return Gradients(1);  // the factors have none
  const DTensor scale = in_matrix(calls, flowing(context) * out(context).conjugate());
  return {multiply(calls, scale, adjoint(calls, inverse_of(calls, input(context, 0))))};
}

/// The logarithm of its size: g A^-H; the sign of a real one is a step. A complex sign turns by the
/// imaginary part of the logarithm's change: -i Im(conj(g) sign) A^-H.
Gradients grad_slogdet(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  DTensor flow = context.grads[1];
  if (is_complex(x.dtype()) && context.grads[0].defined()) {
    const Expression turn = complex_part(flowing(context).conjugate() * out(context), 1);
    const DTensor none = zeros_like(calls, turn);
    const DTensor growth = flow.defined() ? flow : none;
    flow = calls.one("aten::complex", {growth, negate(calls, turn)});
  }
  if (!flow.defined()) return Gradients(1);  // steps, and factors
  const DTensor scale = in_matrix(calls, flow);
  return {multiply(calls, scale, adjoint(calls, inverse_of(calls, x)))};
}

/// A X = B: of B A^-H g, of A -that X^H.
Gradients grad_solve(const GradContext& context) {
  Calls& calls = context.calls;
  if (!context.grads[0].defined()) return Gradients(2);  // the factors have none
  const DTensor &a = input(context, 0), &b = input(context, 1), &x = output(context);
  const bool left = context.inputs[2].to_bool();
  const bool vector = x.ndim() + 1 == a.ndim() || b.ndim() == 1;
  const auto column = [&](const DTensor& value) {
    return vector ? calls.one("aten::unsqueeze", {value, -1}) : value;
  };
  const DTensor of_b =
      calls("aten::_linalg_solve_ex", {adjoint(calls, a), column(context.grads[0]), left})[0]
          .tensor();
  const DTensor solved = adjoint(calls, column(x));
  const DTensor of_a =
      negate(calls, left ? product(calls, of_b, solved) : product(calls, solved, of_b));
  const DTensor flat = vector ? calls.one("aten::squeeze.dim", {of_b, -1}) : of_b;
  return {sum_to(calls, of_a, a), sum_to(calls, flat, b)};
}

DTensor triangle(Calls& calls, const DTensor& x, bool upper, bool unit) {
  if (upper) return calls.one("aten::triu", {x, unit ? 1 : 0});
  return calls.one("aten::tril", {x, unit ? -1 : 0});
}

/// linalg_solve_triangular(self, B, *, upper, left, unitriangular)
Gradients grad_solve_triangular(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &a = input(context, 0), &b = input(context, 1);
  const bool upper = context.inputs[2].to_bool(), left = context.inputs[3].to_bool();
  const bool unit = context.inputs[4].to_bool();
  const DTensor of_b = calls.one("aten::linalg_solve_triangular",
                                 {adjoint(calls, a), context.grads[0], !upper, left, unit});
  const DTensor solved = adjoint(calls, output(context));
  const DTensor of_a =
      negate(calls, left ? product(calls, of_b, solved) : product(calls, solved, of_b));
  return {sum_to(calls, triangle(calls, of_a, upper, unit), a), sum_to(calls, of_b, b)};
}

/// A = L L^H: L^-H (the lower triangle of L^H g, made symmetric, its diagonal as it is, halved)
/// L^-1. Gradients of imaginary parts of the diagonal, which has none, pass as in the reference.
Gradients grad_cholesky(const GradContext& context) {
  Calls& calls = context.calls;
  const bool upper = context.inputs[1].to_bool();
  const DTensor l = upper ? adjoint(calls, output(context)) : output(context);
  const DTensor g = upper ? adjoint(calls, context.grads[0]) : context.grads[0];
  const DTensor inner = product(calls, adjoint(calls, l), g);
  const Expression lower(calls, calls.one("aten::tril", {inner, -1}));
  const Expression square(calls, calls.one("aten::tril", {inner}));
  const Expression both = (square + Expression(calls, adjoint(calls, lower))) * 0.5;
  const DTensor turned = adjoint(calls, l);
  const DTensor left = calls.one("aten::linalg_solve_triangular", {turned, both, true});
  return {calls.one("aten::linalg_solve_triangular", {l, left, false, false})};
}

/// The gradient through L and U: (L^-H M U^-H) in the square that both share, M being L^H gL below
/// the diagonal and gU U^H above, less the parts of the rows or columns beyond.
DTensor grad_factors(Calls& calls, const DTensor& l, const DTensor& u, const DTensor& gl,
                     const DTensor& gu) {
  const std::int64_t m = l.shape()[l.ndim() - 2], n = u.shape().back(), k = std::min(m, n);
  const auto part = [&](const DTensor& x, std::int64_t dim, std::int64_t from, std::int64_t to) {
    return calls.one("aten::slice.Tensor", {x, dim, from, to});
  };
  const auto solved = [&](const DTensor& a, const DTensor& b, bool above, bool left, bool unit) {
    return calls.one("aten::linalg_solve_triangular", {adjoint(calls, a), b, above, left, unit});
  };
  const DTensor l1 = part(l, -2, 0, k), u1 = part(u, -1, 0, k);
  const DTensor lh = adjoint(calls, l1);
  Expression below(calls, product(calls, lh, part(gl, -2, 0, k)));
  const DTensor flow = part(gu, -1, 0, k);
  Expression above(calls, product(calls, flow, adjoint(calls, u1)));
  const DTensor right = part(gu, -1, k, n), under = part(gl, -2, k, m);
  if (n > k) {
    below = below - Expression(calls, product(calls, right, adjoint(calls, part(u, -1, k, n))));
  }
  if (m > k) {
    above = above - Expression(calls, product(calls, adjoint(calls, part(l, -2, k, m)), under));
  }
  const Expression both =
      Expression(calls, lower(calls, below, -1)).plus({calls, upper(calls, above)});
  const DTensor square = solved(u1, solved(l1, both, true, true, true), false, false, false);
  if (n > k) {
    ArgumentList parts{square, solved(l1, right, true, true, true)};
    return calls.one("aten::cat", {parts, -1});
  }
  if (m > k) {
    ArgumentList parts{square, solved(u1, under, false, false, false)};
    return calls.one("aten::cat", {parts, -2});
  }
  return square;
}

/// linalg_lu(A, *, pivot): P, L, U
Gradients grad_lu(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &l = context.outputs[1].tensor(), &u = context.outputs[2].tensor();
  const auto given = [&](std::size_t i, const DTensor& factor) {
    return context.grads[i].defined() ? context.grads[i] : zeros_like(calls, factor);
  };
  if (!context.grads[1].defined() && !context.grads[2].defined()) return Gradients(1);
  const DTensor gl = given(1, l), gu = given(2, u);
  const DTensor inner = grad_factors(calls, l, u, gl, gu);
  if (!context.inputs[1].to_bool()) return {inner};
  return {product(calls, context.outputs[0].tensor(), inner)};
}

/// linalg_lu_factor_ex(A, *, pivot, check_errors): LU, pivots, info
Gradients grad_lu_factor(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &packed = output(context), &g = context.grads[0];
  if (!g.defined()) return Gradients(1);
  const Results unpacked = calls("aten::lu_unpack", {packed, context.outputs[1], true, true});
  const DTensor &l = unpacked[1].tensor(), &u = unpacked[2].tensor();
  const std::int64_t k = l.shape().back();
  const DTensor gl = calls.one("aten::slice.Tensor", {lower(calls, g, -1), -1, 0, k});
  const DTensor gu = calls.one("aten::slice.Tensor", {upper(calls, g), -2, 0, k});
  return {product(calls, unpacked[0].tensor(), grad_factors(calls, l, u, gl, gu))};
}

/// cholesky_solve(self, input2, upper): A X = B with A = L L^H. One triangle of input2 is read; the
/// gradient takes all of it for L, as the reference's does.
Gradients grad_cholesky_solve(const GradContext& context) {
  Calls& calls = context.calls;
  const bool above = context.inputs[2].to_bool();
  const DTensor& l = input(context, 1);
  const DTensor of_b = calls.one("aten::cholesky_solve", {context.grads[0], l, above});
  const DTensor once = product(calls, of_b, adjoint(calls, output(context)));
  const DTensor both = Expression(calls, once).plus({calls, adjoint(calls, once)});
  const DTensor of_l = above ? product(calls, l, both) : product(calls, both, l);
  return {sum_to(calls, of_b, input(context, 0)), sum_to(calls, negate(calls, of_l), l)};
}

/// linalg_lu_solve(LU, pivots, B, *, left, adjoint): for A = P L U the gradient of
/// _linalg_solve_ex, of L P^T gA U^H below the diagonal, of U L^H P^T gA from it on.
Gradients grad_lu_solve(const GradContext& context) {
  Calls& calls = context.calls;
  const Argument &packed = context.inputs[0], &pivots = context.inputs[1];
  const bool left = context.inputs[3].to_bool(), turned = context.inputs[4].to_bool();
  const DTensor of_b =
      calls.one("aten::linalg_lu_solve", {packed, pivots, context.grads[0], left, !turned});
  Gradients gradients(3);
  gradients[2] = sum_to(calls, of_b, input(context, 2));
  if (!context.needs(0)) return gradients;
  const DTensor solved = adjoint(calls, output(context));
  const DTensor once = left ? product(calls, of_b, solved) : product(calls, solved, of_b);
  const DTensor of_a = negate(calls, turned ? adjoint(calls, once) : once);
  const Results factors = calls("aten::lu_unpack", {packed, pivots, true, true});
  const DTensor inner = product(calls, adjoint(calls, factors[0].tensor()), of_a);
  const Expression below(
      calls, lower(calls, product(calls, inner, adjoint(calls, factors[2].tensor())), -1));
  const Expression above(calls,
                         upper(calls, product(calls, adjoint(calls, factors[1].tensor()), inner)));
  gradients[0] = sum_to(calls, below + above, input(context, 0));
  return gradients;
}

/// lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots): P, L, U; the part beyond the square
/// that both share belongs to the longer one.
Gradients grad_lu_unpack(const GradContext& context) {
  Calls& calls = context.calls;
  const TensorMeta& packed = input(context, 0).meta();
  const std::int64_t m = rows_of(packed), n = columns_of(packed), k = std::min(m, n);
  const DTensor &gl = context.grads[1], &gu = context.grads[2];
  std::optional<Expression> both;
  if (gl.defined()) {
    const Dims missing{0, n - k};
    both = {calls, calls.one("aten::constant_pad_nd", {lower(calls, gl, -1), missing})};
  }
  if (gu.defined()) {
    const Dims missing{0, 0, 0, m - k};
    const Expression above(calls, calls.one("aten::constant_pad_nd", {upper(calls, gu), missing}));
    both = both ? *both + above : above;
  }
  return {both ? both->value() : DTensor()};
}

/// triangular_solve(self, A, upper, transpose, unitriangular): X, and A as it was given; A^T where
/// `transpose`, which is not conjugated.
Gradients grad_older_triangular_solve(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &b = input(context, 0), &a = input(context, 1);
  const bool above = context.inputs[2].to_bool(), turned = context.inputs[3].to_bool();
  const bool unit = context.inputs[4].to_bool();
  const auto plain = [&](const DTensor& x) {
    return turned ? calls.one("aten::transpose.int", {x, -2, -1}) : x;
  };
  Gradients gradients(2);
  if (context.grads[0].defined()) {
    const DTensor of_b =
        calls.one("aten::linalg_solve_triangular",
                  {adjoint(calls, plain(a)), context.grads[0], above == turned, true, unit});
    const DTensor once = plain(product(calls, of_b, adjoint(calls, output(context))));
    gradients = {sum_to(calls, of_b, b),
                 sum_to(calls, triangle(calls, negate(calls, once), above, unit), a)};
  }
  if (const DTensor& given = context.grads[1]; given.defined()) {
    const DTensor copy = sum_to(calls, given, a);
    DTensor& of_a = gradients[1];
    of_a = of_a.defined() ? Expression(calls, of_a).plus({calls, copy}).value() : copy;
  }
  return gradients;
}

/// cholesky_inverse(self, upper): A^-1 of A = L L^H, or of U^H U; as in the reference, the triangle
/// that is not read gets a gradient too.
Gradients grad_cholesky_inverse(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &factor = input(context, 0), &inverse = output(context), &g = context.grads[0];
  const DTensor both = Expression(calls, g).plus({calls, adjoint(calls, g)});
  const DTensor inner = product(calls, inverse, product(calls, both, inverse));
  const bool above = context.inputs[1].to_bool();
  return {negate(calls, above ? product(calls, factor, inner) : product(calls, inner, factor))};
}

/// The corner of the exponential of [[A^H, g], [0, A^H]].
Gradients grad_matrix_exp(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor turned = adjoint(calls, input(context, 0));
  const std::int64_t n = turned.shape().back();
  ArgumentList first{turned, context.grads[0]}, second{zeros_like(calls, turned), turned};
  ArgumentList rows{calls.one("aten::cat", {first, -1}), calls.one("aten::cat", {second, -1})};
  const DTensor whole = calls.one("aten::linalg_matrix_exp", {calls.one("aten::cat", {rows, -2})});
  const DTensor upper_half = calls.one("aten::slice.Tensor", {whole, -2, 0, n});
  return {calls.one("aten::slice.Tensor", {upper_half, -1, n, 2 * n})};
}

constexpr const char* kMatrices = "matrix by matrix";
constexpr const char* kLinear = "matrix by matrix, linear in the right sides";

// Sorted by name.
// clang-format off
constexpr Row kLinalgRows[] = {
    {"_linalg_det"_op, meta_det, batch_rule, KernelId::kDet, {grad_det, "A result"}, kMatrices,
     kAllowUneven},
    {"_linalg_slogdet"_op, meta_slogdet, batch_rule, KernelId::kSlogdet,
     {grad_slogdet, "A result0"}, kMatrices, kAllowUneven},
    {"_linalg_solve_ex"_op, meta_solve, solve_rule, KernelId::kSolveEx, {grad_solve, "A B result"},
     kLinear, kAllowUneven},
    {"cholesky_inverse"_op, meta_square_by_columns, batch_rule, KernelId::kCholeskyInverse,
     {grad_cholesky_inverse, "self result"}, kMatrices, kAllowUneven},
    {"cholesky_solve"_op, meta_cholesky_solve, cholesky_solve_rule, KernelId::kCholeskySolve,
     {grad_cholesky_solve, "input2 result"}, kLinear, kAllowUneven},
    {"linalg_cholesky_ex"_op, meta_square_and_info, batch_rule, KernelId::kCholeskyEx,
     {grad_cholesky, "result"}, kMatrices, kAllowUneven},
    {"linalg_inv_ex"_op, meta_square_and_info, batch_rule, KernelId::kInvEx, {grad_inv, "result"},
     kMatrices, kAllowUneven},
    {"linalg_lu"_op, meta_lu, batch_rule, KernelId::kLu, {grad_lu, "result0 result1 result2"},
     kMatrices, kAllowUneven},
    {"linalg_lu_factor_ex"_op, meta_factored, batch_rule, KernelId::kLuFactorEx,
     {grad_lu_factor, "result0 result1"}, kMatrices, kAllowUneven},
    {"linalg_lu_solve"_op, meta_lu_solve, packed_rule, KernelId::kLuSolve,
     {grad_lu_solve, "LU pivots result"}, kLinear, kAllowUneven},
    {"linalg_matrix_exp"_op, meta_square, batch_rule, KernelId::kMatrixExp,
     {grad_matrix_exp, "self"}, kMatrices, kAllowUneven},
    {"linalg_solve_triangular"_op, meta_solve_triangular, solve_triangular_rule,
     KernelId::kSolveTriangular, {grad_solve_triangular, "self B result"}, kLinear, kAllowUneven,
     {}, solve_triangular_filter},
    {"lu_unpack"_op, meta_lu_unpack, lu_unpack_rule, KernelId::kLuUnpack, {grad_lu_unpack, ""},
     kMatrices, kAllowUneven},
    {"triangular_solve"_op, meta_triangular_solve, older_triangular_solve_rule,
     KernelId::kTriangularSolve, {grad_older_triangular_solve, "self A result0"}, kMatrices,
     kAllowUneven},
};
// clang-format on

}  // namespace

void register_linalg(OpRegistry& registry) { add_rows(registry, kLinalgRows); }

}  // namespace shardlab
