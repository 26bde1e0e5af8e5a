// Factorisations of matrices in the last two dims: eigenvalues, singular values, Householder's
// reflections, L D L^H, and pseudo-inverses from them. Gradients are the formulas for factors that
// are unique up to the phase of their vectors.
#include <algorithm>
#include <limits>

#include "mesh/type_string.h"
#include "ops/family.h"
#include "ops/linalg/matrices.h"

namespace shardlab {
namespace {

using namespace grad;
using namespace linalg;

// Shapes

/// linalg_qr(A, mode): reduced, complete, or R alone.
OutputMetas meta_qr(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  const std::string& mode = args[1].string();
  const std::int64_t m = rows_of(a), n = columns_of(a);
  const std::int64_t kept = mode == "complete" ? m : std::min(m, n);
  if (mode != "complete" && mode != "reduced" && mode != "r") {
    fail(Fix{"leave mode out, or write mode='complete' or mode='r'"},
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
  const std::string& half = args[1].string();
  if (half != "L" && half != "U" && half != "l" && half != "u") {
    fail(Fix{"leave UPLO out, or write UPLO='U'"}, "{}: UPLO is '{}', must be 'L' or 'U'",
         args.op().name(), half);
  }
  const OutputMeta values = fresh(with(front_of(a), {rows_of(a)}), real_dtype(a.dtype));
  if (!args[2].to_bool()) return {values, fresh({0}, a.dtype)};
  return {values, square_by_columns(a)};
}

DType with_imaginary(DType dtype) {
  return real_dtype(dtype) == DType::kF64 ? DType::kC128 : DType::kC64;
}

/// linalg_eig(A): complex, also of real matrices.
OutputMetas meta_eig(const MetaArgs& args) {
  const TensorMeta& a = squares(args, 0);
  const DType dtype = with_imaginary(a.dtype);
  return {fresh(with(front_of(a), {rows_of(a)}), dtype),
          by_columns(front_of(a), rows_of(a), rows_of(a), dtype)};
}

OutputMetas meta_geqrf(const MetaArgs& args) {
  const TensorMeta& a = matrices(args, 0);
  return {square_by_columns(a),
          fresh(with(front_of(a), {std::min(rows_of(a), columns_of(a))}), a.dtype)};
}

/// For packed reflections: one factor for each, no more than columns, of the same batch.
void require_factors(const MetaArgs& args, const TensorMeta& packed, std::size_t index) {
  const TensorMeta& factors = *args.tensor(index);
  const std::size_t ndim = packed.shape.size();
  if (factors.shape.size() + 1 == ndim && front_of(factors, 1) == front_of(packed) &&
      factors.shape.back() <= std::min(rows_of(packed), columns_of(packed)) &&
      factors.dtype == packed.dtype) {
    return;
  }
  fail(Fix{"give what geqrf gave: the reflections and their factors"},
       "{}: tau [{}] does not fit reflections [{}]", args.op().name(),
       text_of_list(factors.shape, ", "), text_of_list(packed.shape, ", "));
}

/// linalg_householder_product(input, tau)
OutputMetas meta_householder_product(const MetaArgs& args) {
  const TensorMeta& packed = matrices(args, 0);
  if (rows_of(packed) < columns_of(packed)) {
    fail(Fix{"give at least as many rows as columns"},
         "{}: {} rows hold no reflections of {} columns", args.op().name(), rows_of(packed),
         columns_of(packed));
  }
  require_factors(args, packed, 1);
  return {square_by_columns(packed)};
}

/// ormqr(self, tau, other, left, transpose)
OutputMetas meta_ormqr(const MetaArgs& args) {
  const TensorMeta &packed = matrices(args, 0), &other = matrices(args, 2);
  require_factors(args, packed, 1);
  const std::int64_t size = args[3].to_bool() ? rows_of(other) : columns_of(other);
  if (size != rows_of(packed) || front_of(other) != front_of(packed) ||
      other.dtype != packed.dtype) {
    fail(Fix{"give other the batch of self and as many places as self has rows"},
         "{}: other [{}] does not fit reflections [{}]", args.op().name(),
         text_of_list(other.shape, ", "), text_of_list(packed.shape, ", "));
  }
  return {square_by_columns(other)};
}

OutputMetas meta_ldl_factor(const MetaArgs& args) {
  const TensorMeta& a = squares(args, 0);
  return {square_by_columns(a), fresh(with(front_of(a), {rows_of(a)}), DType::kI32),
          fresh(front_of(a), DType::kI32)};
}

/// linalg_ldl_solve(LD, pivots, B, *, hermitian)
OutputMetas meta_ldl_solve(const MetaArgs& args) {
  const TensorMeta &a = squares(args, 0), &b = matrices(args, 2);
  const TensorMeta& pivots = *args.tensor(1);
  const bool fits = pivots.shape == with(front_of(a), {rows_of(a)}) && is_integral(pivots.dtype);
  if (!fits || rows_of(b) != rows_of(a) || b.dtype != a.dtype) {
    fail(Fix{"give what linalg_ldl_factor gave, and as many rows in B"},
         "{}: LD [{}], pivots [{}] and B [{}] do not fit together", args.op().name(),
         text_of_list(a.shape, ", "), text_of_list(pivots.shape, ", "),
         text_of_list(b.shape, ", "));
  }
  return {by_columns(common_front(args, a, b), rows_of(b), columns_of(b), b.dtype)};
}

/// linalg_cross(self, other, *, dim): three places along dim.
OutputMetas meta_cross(const MetaArgs& args) {
  const TensorMeta &a = *args.tensor(0), &b = *args.tensor(1);
  const std::size_t ndim = a.shape.size();
  const std::size_t dim = ndim == 0 ? 0 : index_of(wrap_dim(args[2].to_int(), ndim));
  if (ndim == 0 || b.shape.size() != ndim || a.shape[dim] != 3 || b.shape[dim] != 3) {
    fail(Fix{"give two tensors of as many dims, of size 3 along dim"},
         "{}: vectors of [{}] and [{}] along dim {} have no cross product", args.op().name(),
         text_of_list(a.shape, ", "), text_of_list(b.shape, ", "), args[2].to_int());
  }
  check_argument_dtype(args, 1, 0);
  const Operands operands = tensor_operands(args);
  return {fresh(broadcast_shapes(args.op(), operands.tensors), a.dtype)};
}

/// linalg_pinv.atol_rtol_tensor(self, *, atol, rtol, hermitian)
OutputMetas meta_pinv(const MetaArgs& args) {
  const TensorMeta& a = args[3].to_bool() ? squares(args, 0) : matrices(args, 0);
  for (const std::size_t index : {1, 2}) {
    const TensorMeta* bound = args.tensor(index);
    if (bound == nullptr ||
        (!is_complex(bound->dtype) && bound->shape.size() + 2 <= a.shape.size()))
      continue;
    fail(Fix{"give a real number, or one for each matrix"},
         "{}: {} [{}] is not one real number for each matrix", args.op().name(),
         args.op().arguments[index].name, text_of_list(bound->shape, ", "));
  }
  return {fresh(with(front_of(a), {columns_of(a), rows_of(a)}), a.dtype)};
}

OutputMetas no_results_of(const MetaArgs&) { return {}; }

// Rules

std::vector<RuleRow> whole_rule(const RuleContext&) { return {}; }

/// All dims but that of the vectors, and those along which one operand stretches.
std::vector<RuleRow> cross_rule(const RuleContext& context) {
  const Dims &a = context.tensors[0]->shape(), &b = context.tensors[1]->shape();
  std::vector<RuleRow> rows =
      shard_all_dims_but(context, wrap_dim(context.schema.args[2].to_int(), a.size()), 2);
  std::erase_if(rows, [&](const RuleRow& row) {
    const std::size_t dim = index_of(row.outputs[0].placement.dim);
    return a[dim] != b[dim];
  });
  return rows;
}

/// Bounds, which are keywords and never moved, have to be whole.
std::vector<RuleRow> pinv_rule(const RuleContext& context) {
  for (std::size_t i = 1; i < context.tensors.size(); ++i) {
    if (!context.tensors[i]->is_sharded() && !context.tensors[i]->has_partial()) continue;
    fail(ErrorKind::kRuntime, Fix{"redistribute it to replicas before the call"},
         "{}: a bound is {}, must be whole on every rank", context.schema.row->name(),
         type_string(*context.tensors[i]));
  }
  // Bounds of each matrix would have to be cut along with them.
  const auto one_number = [](const DTensorSpec* bound) { return bound->ndim() == 0; };
  if (!std::all_of(context.tensors.begin() + 1, context.tensors.end(), one_number)) return {};
  std::vector<RuleRow> rows = batch_rule(context);
  for (RuleRow& row : rows) {
    for (std::size_t i = 1; i < row.inputs.size(); ++i) row.inputs[i] = whole();
  }
  return rows;
}

// Programs

/// linalg_cross(self, other, *, dim): of the numbers that follow each, round and round.
Results cross(Calls& calls, const OpRow&, const Arguments& args) {
  const auto turned = [&](std::size_t i, std::int64_t by) {
    return Expression(calls, calls.one("aten::roll", {args[i], Dims{by}, Dims{args[2].to_int()}}));
  };
  const Expression forth = turned(0, -1).times(turned(1, -2));
  const Expression back = turned(0, -2).times(turned(1, -1));
  return {forth - back};
}

Expression in_columns(const Expression& x) { return x.with("aten::unsqueeze", -2); }
Expression in_rows(const Expression& x) { return x.with("aten::unsqueeze", -1); }

/// 1 / x where x is larger than the bounds, else 0. `atol` and `rtol` are None or tensors.
Expression inverted(const Expression& x, const Argument& atol, const Argument& rtol, double step) {
  Calls& calls = x.calls();
  const Expression size = x.of("aten::abs");
  const Expression largest(calls, calls.one("aten::amax", {size, Dims{-1}, true}));
  Expression bound = largest * (atol.is_none() && rtol.is_none() ? step : 0.0);
  if (!rtol.is_none()) bound = largest * in_rows({calls, rtol.tensor()});
  if (!atol.is_none() && rtol.is_none()) {
    // A bound of 0 is none.
    const Expression given = in_rows({calls, atol.tensor()});
    const Expression none = largest * 0.0;
    bound = given.gt(0).choose(none, largest * step);
  }
  if (!atol.is_none()) {
    bound =
        bound.with("aten::maximum",
                   in_rows({calls, atol.tensor()}).plus(largest * 0.0).to(bound.value().dtype()));
  }
  const Expression small = size.le(bound.to(size.value().dtype()));
  return x.of("aten::reciprocal").filled(small, 0);
}

Results pinv(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor& a = args[0].tensor();
  const std::int64_t m = a.shape()[a.ndim() - 2], n = a.shape().back();
  if (a.numel() == 0) {
    Dims shape(a.shape().begin(), a.shape().end() - 2);
    return {calls.one("aten::new_zeros", {a, with(shape, {n, m})})};
  }
  const double epsilon = real_dtype(a.dtype()) == DType::kF64
                             ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
  const double step = epsilon * static_cast<double>(std::max(m, n));
  const bool hermitian = args[3].to_bool();
  const Results found = hermitian ? calls("aten::_linalg_eigh", {a, "L", true})
                                  : calls("aten::_linalg_svd", {a, false, true});
  const DTensor& left = found[hermitian ? 1 : 0].tensor();
  const DTensor right = hermitian ? left : adjoint(calls, found[2].tensor());
  const Expression values(calls, found[hermitian ? 0 : 1].tensor());
  const Expression scaled =
      Expression(calls, right).times(in_columns(inverted(values, args[1], args[2], step)));
  const DTensor columns = scaled.to(a.dtype());
  return {product(calls, columns, adjoint(calls, left))};
}

/// A bound as a tensor that every rank has whole; None stays None.
Argument bound_of(Calls& calls, const DTensor& x, const Argument& number) {
  if (number.is_none()) return number;
  if (number.is_tensor()) {
    const DTensor& given = number.tensor();
    if (!given.distributed()) return number;
    const std::size_t dims = given.spec()->placements().size();
    return calls.redistribute(given, Placements(dims, Placement::replicate()));
  }
  return calls.one("aten::new_full", {x, Dims{}, number, DType::kF64});
}

/// linalg_pinv(self, rcond, hermitian), whose rcond may be a tensor
Results pinv_of_rcond(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return {calls.one("aten::linalg_pinv.atol_rtol_tensor",
                    {x, bound_of(calls, x, 0.0), bound_of(calls, x, args[1]), args[2]})};
}
/// linalg_pinv.atol_rtol_float(self, *, atol, rtol, hermitian)
Results pinv_of_numbers(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return {calls.one("aten::linalg_pinv.atol_rtol_tensor",
                    {x, bound_of(calls, x, args[1]), bound_of(calls, x, args[2]), args[3]})};
}

/// svd(self, some, compute_uv): V where the newer op gives its adjoint.
Results older_svd(Calls& calls, const Arguments& args) {
  const DTensor& a = args[0].tensor();
  const bool vectors = args[2].to_bool();
  const Results found = calls("aten::_linalg_svd", {a, !args[1].to_bool(), vectors});
  if (vectors) return {found[0], found[1], Argument(adjoint(calls, found[2].tensor()))};
  const Dims front(a.shape().begin(), a.shape().end() - 2);
  const std::int64_t m = a.shape()[a.ndim() - 2], n = a.shape().back();
  return {calls.one("aten::new_zeros", {a, with(front, {m, m})}), found[1],
          Argument(calls.one("aten::new_zeros", {a, with(front, {n, n})}))};
}

// Gradients

/// x - x^H
Expression skew(Calls& calls, const DTensor& x) {
  return Expression(calls, x).minus({calls, adjoint(calls, x)});
}

/// Makes v_j - v_i in row i, column j, with 1 on the diagonal.
Expression gaps(Calls& calls, const Expression& v) {
  const DTensor ones = calls.one("aten::ones_like", {v});
  return in_columns(v).minus(in_rows(v)).plus({calls, on_diagonal(calls, ones)});
}

/// The elements off the diagonal.
Expression off_diagonal(Calls& calls, const Expression& x) {
  return x - Expression(calls, on_diagonal(calls, diagonal(calls, x)));
}

/// _linalg_svd(A, full_matrices, compute_uv, *, driver): U, S, Vh. The vectors of full matrices
/// beyond the singular values are any that fit, and give no gradient.
Gradients grad_svd(const GradContext& context) {
  Calls& calls = context.calls;
  if (!context.inputs[2].to_bool()) {
    fail(ErrorKind::kUnsupported, Fix{"ask for the vectors, too: compute_uv=True"},
         "_linalg_svd: singular values have a gradient where the vectors are computed");
  }
  const Expression s(calls, context.outputs[1].tensor());
  const std::int64_t k = s.value().shape().back();
  const auto first = [&](const DTensor& x, std::int64_t dim) {
    const bool whole = !x.defined() || x.shape()[x.ndim() - static_cast<std::size_t>(-dim)] == k;
    return whole ? x : calls.one("aten::slice.Tensor", {x, dim, 0, k});
  };
  const DTensor u = first(context.outputs[0].tensor(), -1);
  const DTensor vh = first(context.outputs[2].tensor(), -2);
  const bool complex = is_complex(u.dtype());
  const DTensor uh = adjoint(calls, u), v = adjoint(calls, vh);
  const DTensor gu = first(context.grads[0], -1), gvh = first(context.grads[2], -2);
  const DTensor& gs = context.grads[1];
  DTensor inner = on_diagonal(calls, gs.defined() ? cast_like(calls, gs, u)
                                                  : calls.one("aten::zeros_like", {s, u.dtype()}));
  const Expression between = gaps(calls, s * s);
  if (gu.defined()) {
    const Expression turned = skew(calls, product(calls, uh, gu));
    inner = Expression(calls, inner).plus((turned / between).times(in_columns(s)));
    if (complex && gvh.defined()) {
      const Expression phase(calls, diagonal(calls, turned));
      const DTensor turns = on_diagonal(calls, phase / (s * 2.0));
      inner = Expression(calls, inner).plus({calls, turns});
    }
  }
  if (gvh.defined()) {
    const Expression turned = skew(calls, product(calls, vh, adjoint(calls, gvh)));
    inner = Expression(calls, inner).plus(in_rows(s).times(turned / between));
  }
  Expression left(calls, product(calls, u, inner));
  if (gu.defined() && u.shape()[u.ndim() - 2] > k) {
    const Expression scaled = Expression(calls, gu).over(in_columns(s));
    left = (left + scaled).minus({calls, product(calls, u, product(calls, uh, scaled))});
  }
  Expression result(calls, product(calls, left, vh));
  if (gvh.defined() && vh.shape().back() > k) {
    const Expression scaled = Expression(calls, gvh).over(in_rows(s));
    const Expression outside =
        scaled - Expression(calls, product(calls, product(calls, scaled, v), vh));
    result = result + Expression(calls, product(calls, u, outside));
  }
  return {result};
}

/// _linalg_eigh(A, UPLO, compute_v): eigenvalues, eigenvectors. Vectors of length 1 only turn, by
/// the skew part of their gradient; the result is the gradient of a symmetric matrix.
Gradients grad_eigh(const GradContext& context) {
  Calls& calls = context.calls;
  if (!context.inputs[2].to_bool()) {
    fail(ErrorKind::kUnsupported, Fix{"use linalg_eigh, which computes the vectors"},
         "_linalg_eigh: without its vectors it has no gradient");
  }
  const DTensor& v = context.outputs[1].tensor();
  const DTensor vh = adjoint(calls, v);
  const Expression values(calls, context.outputs[0].tensor());
  const auto &gl = context.grads[0], &gv = context.grads[1];
  Expression inner(
      calls, on_diagonal(calls, gl.defined() ? cast_like(calls, gl, v)
                                             : calls.one("aten::zeros_like", {values, v.dtype()})));
  if (gv.defined()) {
    const Expression turned(calls, product(calls, vh, gv));
    const Expression back(calls, adjoint(calls, turned));
    const Expression skew = (turned - back) * 0.5;
    inner = inner + off_diagonal(calls, skew / gaps(calls, values));
  }
  return {product(calls, v, product(calls, inner, vh))};
}

/// linalg_eig(A): eigenvalues, eigenvectors of length 1
Gradients grad_eig(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& v = context.outputs[1].tensor();
  const DTensor vh = adjoint(calls, v);
  const Expression values(calls, context.outputs[0].tensor());
  const auto &gl = context.grads[0], &gv = context.grads[1];
  Expression inner(calls, on_diagonal(calls, gl.defined() ? gl : zeros_like(calls, values)));
  if (gv.defined()) {
    const DTensor turned = product(calls, vh, gv);
    const Expression along(calls, calls.one("aten::real", {diagonal(calls, turned)}));
    const Expression scaled = Expression(calls, v).times(in_columns(along));
    const Expression rest = Expression(calls, turned).minus({calls, product(calls, vh, scaled)});
    inner = inner + off_diagonal(calls, rest / gaps(calls, values).conjugate());
  }
  const DTensor right = product(calls, inner, vh);
  const DTensor result = calls("aten::_linalg_solve_ex", {vh, right})[0].tensor();
  const bool real = !is_complex(input(context, 0).dtype());
  return {real ? calls.one("aten::real", {result}) : result};
}

/// The gradient through Q and R of square matrices: (gQ + Q M) R^-H, M being made of the upper
/// triangle of gR R^H - Q^H gQ, half on the diagonal, and its adjoint.
DTensor grad_square_qr(Calls& calls, const DTensor& q, const DTensor& r, const DTensor& gq,
                       const DTensor& gr) {
  Expression inner(calls, zeros_like(calls, product(calls, r, adjoint(calls, r))));
  if (gr.defined()) inner = inner + Expression(calls, product(calls, gr, adjoint(calls, r)));
  if (gq.defined()) inner = inner - Expression(calls, product(calls, adjoint(calls, q), gq));
  const DTensor above = upper(calls, inner);
  const Expression both = Expression(calls, above).plus({calls, adjoint(calls, above)});
  DTensor twice = diagonal(calls, both);
  if (is_complex(twice.dtype())) {
    twice = calls.one("aten::_to_copy", {calls.one("aten::real", {twice}), q.dtype()});
  }
  const Expression half =
      off_diagonal(calls, both).plus(Expression(calls, on_diagonal(calls, twice)) * 0.5);
  Expression sum(calls, product(calls, q, half));
  if (gq.defined()) sum = sum + Expression(calls, gq);
  return calls.one("aten::linalg_solve_triangular", {adjoint(calls, r), sum, false, false});
}

/// linalg_qr(A, mode): Q, R. The columns beyond a square are Q R itself.
Gradients grad_qr(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &a = input(context, 0), &q = context.outputs[0].tensor(),
                &r = context.outputs[1].tensor();
  const std::int64_t m = a.shape()[a.ndim() - 2], n = a.shape().back();
  const std::string& mode = context.inputs[1].string();
  if (mode == "r" || (mode == "complete" && m > n)) {
    fail(ErrorKind::kUnsupported, Fix{"use mode='reduced'"},
         "linalg_qr: mode '{}' has no gradient for {} rows and {} columns", mode, m, n);
  }
  const DTensor &gq = context.grads[0], &gr = context.grads[1];
  if (m >= n) return {grad_square_qr(calls, q, r, gq, gr)};
  const auto columns = [&](const DTensor& x, std::int64_t from, std::int64_t to) {
    return calls.one("aten::slice.Tensor", {x, -1, from, to});
  };
  if (!gr.defined()) {
    const DTensor first = grad_square_qr(calls, q, columns(r, 0, m), gq, {});
    return {calls.one("aten::constant_pad_nd", {first, Dims{0, n - m}})};
  }
  const DTensor beyond = columns(gr, m, n);
  const DTensor rest = columns(a, m, n);
  const DTensor added = product(calls, rest, adjoint(calls, beyond));
  const DTensor whole_gq =
      gq.defined() ? Expression(calls, gq).plus({calls, added}).value() : added;
  const DTensor square = columns(r, 0, m);
  const DTensor first = grad_square_qr(calls, q, square, whole_gq, columns(gr, 0, m));
  ArgumentList parts{first, product(calls, q, beyond)};
  return {calls.one("aten::cat", {parts, -1})};
}

/// linalg_householder_product(input, tau): the first columns of the product.
Gradients grad_householder_product(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& packed = input(context, 0);
  const DTensor whole = with_columns(calls, context.grads[0], packed.shape()[packed.ndim() - 2]);
  return packed_gradients(calls, packed, input(context, 1), whole);
}

/// ormqr(self, tau, other, left, transpose): op(Q) C, or C op(Q).
Gradients grad_ormqr(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &packed = input(context, 0), &tau = input(context, 1), &g = context.grads[0];
  const bool left = context.inputs[3].to_bool(), turned = context.inputs[4].to_bool();
  Gradients gradients;
  if (context.needs(0) || context.needs(1)) {
    const DTensor& other = input(context, 2);
    const DTensor of_op =
        left ? product(calls, g, adjoint(calls, other)) : product(calls, adjoint(calls, other), g);
    gradients = packed_gradients(calls, packed, tau, turned ? adjoint(calls, of_op) : of_op);
  }
  gradients.resize(3);
  if (context.needs(2)) gradients[2] = calls.one("aten::ormqr", {packed, tau, g, left, !turned});
  return gradients;
}

Gradients grad_cross(const GradContext& context) {
  const auto factor = [&](std::size_t i) { return conjugated(context.calls, input(context, i)); };
  const Argument g(context.grads[0]), dim = context.inputs[2];
  return each(
      context,
      [&] {
        return context.calls.one("aten::linalg_cross", {factor(1), g, dim});
      },
      [&] {
        return context.calls.one("aten::linalg_cross", {g, factor(0), dim});
      });
}

/// P = A^+: -P^H (g^H P)^H .., the derivative of a pseudo-inverse of full rank: through P itself,
/// and through the spaces that A does not reach.
Gradients grad_pinv(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor &a = input(context, 0), &p = output(context);
  const auto times = [&](const DTensor& x, const DTensor& y) { return product(calls, x, y); };
  const DTensor gh = adjoint(calls, context.grads[0]), ph = adjoint(calls, p);
  const auto plain = [&](const DTensor& x) { return Expression(calls, x); };
  const DTensor k = times(gh, p);  // m x m
  const DTensor through = adjoint(calls, times(p, k));
  const DTensor reached = times(k, ph);  // m x n
  const Expression rows = plain(reached).minus(plain(times(times(a, p), reached)));
  const DTensor outside = plain(gh).minus(plain(times(k, a)));
  const Expression columns = plain(times(times(ph, p), outside));
  return {(rows + columns).minus(plain(through))};
}

constexpr const char* kEachMatrix = "matrix by matrix";
constexpr const char* kReplicas = "the reference wants its input whole";
constexpr const char* kLinearSides = "matrix by matrix, linear in the right sides";
constexpr const char* kOfPinv = "linalg_pinv with bounds as tensors";

// Sorted by name.
// clang-format off
constexpr Row kFactorizationRows[] = {
    {"_linalg_check_errors"_op, no_results_of, batch_rule, KernelId::kLinalgCheckErrors, {},
     "every rank looks at its piece", kAllowUneven | kNotDifferentiable, {1}},
    {"_linalg_eigh"_op, meta_eigh, whole_rule, KernelId::kEigh, {grad_eigh, "result0 result1"},
     kReplicas},
    {"_linalg_svd"_op, meta_svd, whole_rule, KernelId::kSvd, {grad_svd, "result0 result1 result2"},
     kReplicas},
    {"geqrf"_op, meta_geqrf, batch_rule, KernelId::kGeqrf, {}, kEachMatrix, kAllowUneven},
    {"linalg_cross"_op, meta_cross, cross_rule, cross, {grad_cross, "self:other other:self"},
     "vector by vector", kAllowUneven},
    {"linalg_eig"_op, meta_eig, batch_rule, KernelId::kEig, {grad_eig, "result0 result1"},
     kEachMatrix, kAllowUneven},
    composite("linalg_eigvals"_op, result_of<"linalg_eig", 0>, "linalg_eig"),
    {"linalg_householder_product"_op, meta_householder_product, batch_rule,
     KernelId::kHouseholderProduct, {grad_householder_product, "input tau result"}, kEachMatrix,
     kAllowUneven},
    {"linalg_ldl_factor_ex"_op, meta_ldl_factor, batch_rule, KernelId::kLdlFactorEx, {},
     kEachMatrix, kAllowUneven},
    {"linalg_ldl_solve"_op, meta_ldl_solve, packed_rule, KernelId::kLdlSolve, {}, kLinearSides,
     kAllowUneven},
    composite("linalg_pinv"_op, pinv_of_rcond, kOfPinv),
    composite("linalg_pinv.atol_rtol_float"_op, pinv_of_numbers, kOfPinv),
    {"linalg_pinv.atol_rtol_tensor"_op, meta_pinv, pinv_rule, pinv, {grad_pinv, "self result"},
     kEachMatrix, kAllowUneven},
    composite("linalg_pinv.rcond_tensor"_op, pinv_of_rcond, kOfPinv),
    {"linalg_qr"_op, meta_qr, whole_rule, KernelId::kQr, {grad_qr, "A result0 result1"}, kReplicas},
    {"ormqr"_op, meta_ormqr, packed_rule, KernelId::kOrmqr,
     {grad_ormqr, "self input2 input3 result"}, kLinearSides, kAllowUneven},
    composite("svd"_op, older_svd, "_linalg_svd"),
};
// clang-format on

}  // namespace

void register_factorization(OpRegistry& registry) { add_rows(registry, kFactorizationRows); }

}  // namespace shardlab
