// Linear algebra of matrices in the last two dims. Dims in front of them count matrices and may be
// cut; a matrix itself has to be whole. What is linear in an operand lets pending sums of it pass.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/fix.h"
#include "kernels/kernel_id.h"
#include "ops/arguments.h"
#include "ops/gradient_math.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rows.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

using namespace grad;

// Shapes

const TensorMeta& matrices(const MetaArgs& args, std::size_t index) {
  const TensorMeta& meta = *args.tensor(index);
  require_float(args.op().name(), meta.dtype);
  if (meta.shape.size() >= 2) return meta;
  fail(ErrorKind::kValue, Fix{"give matrices: the last two dims"},
       "{}: an operand has {} dims, must have at least 2", args.op().name(), meta.shape.size());
}

const TensorMeta& squares(const MetaArgs& args, std::size_t index) {
  const TensorMeta& meta = matrices(args, index);
  const std::size_t ndim = meta.shape.size();
  if (meta.shape[ndim - 1] == meta.shape[ndim - 2]) return meta;
  fail(ErrorKind::kValue, Fix{"give matrices with as many rows as columns"},
       "{}: matrices of {} rows and {} columns are not square", args.op().name(),
       meta.shape[ndim - 2], meta.shape[ndim - 1]);
}

std::int64_t rows_of(const TensorMeta& meta) { return meta.shape[meta.shape.size() - 2]; }
std::int64_t columns_of(const TensorMeta& meta) { return meta.shape.back(); }

Dims front_of(const TensorMeta& meta, std::size_t count = 2) {
  return Dims(meta.shape.begin(), meta.shape.end() - static_cast<std::ptrdiff_t>(count));
}

Dims with(Dims front, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) front.push_back(size);
  return front;
}

OutputMeta fresh(Dims shape, DType dtype) { return {contiguous_meta(std::move(shape), dtype)}; }

/// Matrices whose columns lie in one piece, as LAPACK writes them.
OutputMeta by_columns(Dims front, std::int64_t rows, std::int64_t columns, DType dtype) {
  OutputMeta output = fresh(with(std::move(front), {rows, columns}), dtype);
  const std::size_t ndim = output.meta.shape.size();
  output.meta.stride[ndim - 2] = 1;
  output.meta.stride[ndim - 1] = std::max<std::int64_t>(rows, 1);
  return output;
}

OutputMeta square_by_columns(const TensorMeta& a) {
  return by_columns(front_of(a), rows_of(a), columns_of(a), a.dtype);
}

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
/// One for each step of the factorisation.
void require_pivots(const MetaArgs& args, const TensorMeta& lu) {
  const Dims& shape = args.tensor(1)->shape;
  const std::int64_t steps = std::min(rows_of(lu), columns_of(lu));
  if (!shape.empty() && shape.back() == steps) return;
  fail(ErrorKind::kValue, Fix{"give the pivots that linalg_lu_factor gave"},
       "{}: pivots [{}] are not {} for each matrix", args.op().name(), fmt::join(shape, ", "),
       steps);
}
OutputMetas meta_lu_unpack(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  require_pivots(args, a);
  return unpacked(a, args[2].to_bool(), args[3].to_bool(), a.dtype);
}

/// The fronts of both, broadcast.
Dims common_front(const MetaArgs& args, const TensorMeta& a, const TensorMeta& b,
                  std::size_t dims_of_b = 2) {
  const TensorMeta fronts[] = {contiguous_meta(front_of(a), a.dtype),
                               contiguous_meta(front_of(b, dims_of_b), b.dtype)};
  const TensorMeta* const both[] = {&fronts[0], &fronts[1]};
  return broadcast_shapes(args.op(), both);
}

void require_fit(const MetaArgs& args, std::int64_t size, std::int64_t wanted) {
  if (size == wanted) return;
  fail(ErrorKind::kValue, Fix{"give right sides as long as the matrices are wide"},
       "{}: right sides of length {} do not fit matrices of {}", args.op().name(), size, wanted);
}

/// Solutions (a at index `a`, right sides at `b`) with A left of them, or right.
OutputMeta solution(const MetaArgs& args, std::size_t a_index, std::size_t b_index, bool left) {
  const TensorMeta &a = squares(args, a_index), &b = matrices(args, b_index);
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

/// _linalg_solve_ex(A, B, *, left, check_errors): B may be one vector per matrix.
OutputMetas meta_solve(const MetaArgs& args) {
  const TensorMeta &a = squares(args, 0), &b = *args.tensor(1);
  const bool vector =
      b.shape.size() == 1 || (b.shape.size() + 1 == a.shape.size() && b.shape == front_of(a, 1));
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

/// linalg_qr(A, mode): reduced, complete, or R alone.
OutputMetas meta_qr(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  const std::string& mode = args[1].string();
  const std::int64_t m = rows_of(a), n = columns_of(a);
  const std::int64_t kept = mode == "complete" ? m : std::min(m, n);
  if (mode != "complete" && mode != "reduced" && mode != "r") {
    fail(ErrorKind::kValue, Fix{"leave mode out, or write mode='complete' or mode='r'"},
         "{}: mode is '{}', must be 'reduced', 'complete' or 'r'", args.op().name(), mode);
  }
  const OutputMeta q =
      mode == "r" ? fresh({0}, a.dtype) : by_columns(front_of(a), m, kept, a.dtype);
  return {q, by_columns(front_of(a), kept, n, a.dtype)};
}

/// _linalg_svd(A, full_matrices, compute_uv, *, driver)
OutputMetas meta_svd(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  const std::int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  const bool full = args[1].to_bool();
  const OutputMeta s = fresh(with(front_of(a), {k}), real_dtype(a.dtype));
  if (!args[2].to_bool()) return {fresh({0}, a.dtype), s, fresh({0}, a.dtype)};
  return {by_columns(front_of(a), m, full ? m : k, a.dtype), s,
          by_columns(front_of(a), full ? n : k, n, a.dtype)};
}

/// _linalg_eigh(A, UPLO, compute_v)
OutputMetas meta_eigh(const MetaArgs& args) {
  const TensorMeta& a = squares(args, 0);
  const OutputMeta values = fresh(with(front_of(a), {rows_of(a)}), real_dtype(a.dtype));
  if (!args[2].to_bool()) return {values, fresh({0}, a.dtype)};
  return {values, square_by_columns(a)};
}

// Rules

/// Dims in front of the matrices, the same in all operands and results.
std::vector<RuleRow> batch_rule(const RuleContext& context) {
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim + 2 < ndim_of(context); ++dim) {
    rows.push_back(
        uniform_row(any(dim), context.schema.row->op.returns.size(), context.tensors.size()));
  }
  return rows;
}

/// The same, and the first result is linear in operand `linear`, of which sums pass.
template <std::size_t linear>
std::vector<RuleRow> linear_batch_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = batch_rule(context);
  RuleRow row = uniform_row(whole(), context.schema.row->op.returns.size(), context.tensors.size());
  row.outputs[0] = row.inputs[linear] = sum();
  rows.push_back(std::move(row));
  return rows;
}

/// Right sides may have dims in front that the matrices lack.
std::vector<RuleRow> solve_triangular_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = linear_batch_rule<1>(context);
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

std::vector<RuleRow> whole_rule(const RuleContext&) { return {}; }

// Gradients

DTensor adjoint(Calls& calls, const DTensor& x) {
  const DTensor turned = calls.one("aten::transpose.int", {x, -2, -1});
  return is_complex(x.dtype()) ? calls.one("aten::conj_physical", {turned}) : turned;
}
DTensor product(Calls& calls, const DTensor& a, const DTensor& b) {
  return calls.one("aten::matmul", {a, b});
}
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
  if (!context.grads[0].defined()) return Gradients(1);  // the factors beside it have none
  const Expression result = out(context);
  const Expression size =
      is_complex(result.value().dtype()) ? result.of("aten::conj_physical") : result;
  const DTensor scale = in_matrix(calls, (flowing(context) * size).value());
  return {multiply(calls, scale, adjoint(calls, inverse_of(calls, input(context, 0))))};
}

/// The logarithm of its size: g A^-H; the sign of a real one is a step.
Gradients grad_slogdet(const GradContext& context) {
  Calls& calls = context.calls;
  if (is_complex(input(context, 0).dtype()) && context.grads[0].defined()) {
    fail(ErrorKind::kUnsupported, Fix{"use the logarithm alone"},
         "_linalg_slogdet: the sign of a complex determinant has no gradient here");
  }
  if (!context.grads[1].defined()) return Gradients(1);  // steps, and factors
  return {multiply(calls, in_matrix(calls, context.grads[1]),
                   adjoint(calls, inverse_of(calls, input(context, 0))))};
}

/// A X = B: of B A^-H g, of A -that X^H.
Gradients grad_solve(const GradContext& context) {
  Calls& calls = context.calls;
  if (!context.grads[0].defined()) return Gradients(2);  // the factors beside it have none
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

/// A = L L^H: L^-H (the lower triangle of L^H g, half on the diagonal, made symmetric) L^-1
Gradients grad_cholesky(const GradContext& context) {
  Calls& calls = context.calls;
  const bool upper = context.inputs[1].to_bool();
  const DTensor l = upper ? adjoint(calls, output(context)) : output(context);
  const DTensor g = upper ? adjoint(calls, context.grads[0]) : context.grads[0];
  const DTensor inner = product(calls, adjoint(calls, l), g);
  const Expression lower(calls, calls.one("aten::tril", {inner, -1}));
  const Expression diagonal = Expression(calls, calls.one("aten::tril", {inner})) - lower;
  const Expression half = lower + diagonal * 0.5;
  const Expression both = (half + Expression(calls, adjoint(calls, half.value()))) * 0.5;
  const DTensor turned = adjoint(calls, l);
  const DTensor left = calls.one("aten::linalg_solve_triangular", {turned, both.value(), true});
  return {calls.one("aten::linalg_solve_triangular", {l, left, false, false})};
}

constexpr const char* kMatrices = "matrix by matrix";
constexpr const char* kReplicas = "the reference wants its input whole";
constexpr const char* kLinear = "matrix by matrix, linear in the right sides";

// Sorted by name.
// clang-format off
constexpr Row kLinalgRows[] = {
    {"_linalg_det", meta_det, batch_rule, KernelId::kDet, {nullptr, "_linalg_det.result"},
     {grad_det, "A result"}, kMatrices, kAllowUneven},
    {"_linalg_eigh", meta_eigh, whole_rule, KernelId::kEigh, {nullptr, "_linalg_eigh.eigenvalues"},
     {}, kReplicas},
    {"_linalg_slogdet", meta_slogdet, batch_rule, KernelId::kSlogdet,
     {nullptr, "_linalg_slogdet.sign"}, {grad_slogdet, "A"}, kMatrices, kAllowUneven},
    {"_linalg_solve_ex", meta_solve, linear_batch_rule<1>, KernelId::kSolveEx,
     {nullptr, "_linalg_solve_ex.result"}, {grad_solve, "A B result"}, kLinear, kAllowUneven},
    {"_linalg_svd", meta_svd, whole_rule, KernelId::kSvd, {nullptr, "_linalg_svd.U"}, {},
     kReplicas},
    {"cholesky_inverse", meta_square_by_columns, batch_rule, KernelId::kCholeskyInverse,
     {nullptr, "cholesky_inverse.out"}, {}, kMatrices, kAllowUneven},
    {"cholesky_solve", meta_cholesky_solve, linear_batch_rule<0>, KernelId::kCholeskySolve,
     {nullptr, "cholesky_solve.out"}, {}, kLinear, kAllowUneven},
    {"linalg_cholesky_ex", meta_square_and_info, batch_rule, KernelId::kCholeskyEx,
     {nullptr, "linalg_cholesky_ex.L"}, {grad_cholesky, "result"}, kMatrices, kAllowUneven},
    {"linalg_inv_ex", meta_square_and_info, batch_rule, KernelId::kInvEx,
     {nullptr, "linalg_inv_ex.inverse"}, {grad_inv, "result"}, kMatrices, kAllowUneven},
    {"linalg_lu", meta_lu, batch_rule, KernelId::kLu, {nullptr, "linalg_lu.out"}, {}, kMatrices,
     kAllowUneven},
    {"linalg_lu_factor_ex", meta_factored, batch_rule, KernelId::kLuFactorEx,
     {nullptr, "linalg_lu_factor_ex.out"}, {}, kMatrices, kAllowUneven},
    {"linalg_lu_solve", meta_lu_solve, linear_batch_rule<2>, KernelId::kLuSolve,
     {nullptr, "linalg_lu_solve.out"}, {}, kLinear, kAllowUneven},
    {"linalg_matrix_exp", meta_square, batch_rule, KernelId::kMatrixExp,
     {nullptr, "linalg_matrix_exp.out"}, {}, kMatrices, kAllowUneven},
    {"linalg_qr", meta_qr, whole_rule, KernelId::kQr, {nullptr, "linalg_qr.out"}, {}, kReplicas},
    {"linalg_solve_triangular", meta_solve_triangular, solve_triangular_rule,
     KernelId::kSolveTriangular, {nullptr, "linalg_solve_triangular.out"},
     {grad_solve_triangular, "self B result"}, kLinear, kAllowUneven, {},
     solve_triangular_filter},
    {"lu_unpack", meta_lu_unpack, batch_rule, KernelId::kLuUnpack, {nullptr, "lu_unpack.out"}, {},
     kMatrices, kAllowUneven},
    {"triangular_solve", meta_triangular_solve, batch_rule, KernelId::kTriangularSolve,
     {nullptr, "triangular_solve.X"}, {}, kMatrices, kAllowUneven},
};
// clang-format on

}  // namespace

void register_linalg(OpRegistry& registry) { add_rows(registry, kLinalgRows); }

}  // namespace shardlab
