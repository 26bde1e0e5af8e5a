// Distances and norms as programs: between tensors, between their rows, and tensors scaled by the
// norms of their slices; products with a vector in front.
#include <algorithm>
#include <cmath>

#include "ops/family.h"

namespace shardlab {
namespace {

/// Coordinates of rows are real.
void require_real(std::string_view op, const DTensor& x) {
  if (!is_complex(x.dtype())) return;
  fail(Fix{"give the parts as coordinates: torch.view_as_real(x).flatten(start_dim=-2)"},
       "{} takes real floats, not {}", op, to_string(x.dtype()));
}

DTensor norm_of(Calls& calls, const DTensor& x, const Argument& p, const Argument& dims,
                bool kept) {
  return calls.one("linalg_vector_norm", {x, p, dims, kept});
}

/// dist(self, other, p)
Results dist(Calls& calls, const Arguments& args) {
  const DTensor difference = calls.one("sub.Tensor", {args[0], args[1]});
  return {norm_of(calls, difference, args[2], Argument(), false)};
}

/// pairwise_distance(x1, x2, p, eps, keepdim)
Results pairwise_distance(Calls& calls, const Arguments& args) {
  const DTensor difference = calls.one("sub.Tensor", {args[0], args[1]});
  const DTensor shifted = calls.one("add.Scalar", {difference, args[3]});
  return {norm_of(calls, shifted, args[2], Dims{-1}, args[4].to_bool())};
}

/// pdist(self, p): of each row to each later one
Results pdist(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() != 2 || !(args[1].to_double() >= 0)) {
    fail(Fix{"give a matrix, and a p of at least 0"},
         "pdist takes a tensor of 2 dims and a p that is not negative, not {} and {}", x.ndim(),
         args[1].text());
  }
  require_real("pdist", x);
  ArgumentList distances;
  for (std::int64_t i = 0; i + 1 < x.shape()[0]; ++i) {
    const DTensor row = calls.one("slice.Tensor", {x, 0, i, i + 1});
    const DTensor later = calls.one("slice.Tensor", {x, 0, i + 1});
    const DTensor difference = calls.one("sub.Tensor", {later, row});
    distances.emplace_back(norm_of(calls, difference, args[1], Dims{1}, false));
  }
  if (distances.empty()) {
    const DTensor none = calls.one("slice.Tensor", {x, 0, 0, 0});
    distances.emplace_back(norm_of(calls, none, args[1], Dims{1}, false));
  }
  return {calls.one("cat", {distances, 0})};
}

/// cdist(x1, x2, p, compute_mode): of each row to each row, matrix by matrix
Results cdist(Calls& calls, const Arguments& args) {
  const DTensor &a = args[0].tensor(), &b = args[1].tensor();
  if (a.ndim() < 2 || b.ndim() < 2 || a.shape().back() != b.shape().back()) {
    fail(Fix{"give matrices with as many columns"},
         "cdist takes two tensors of at least 2 dims whose last ones are equal, not of {} and {}",
         a.ndim(), b.ndim());
  }
  require_real("cdist", a);
  require_real("cdist", b);
  require_one_dtype("cdist", {{"x1", args[0]}, {"x2", args[1]}});
  if (args[2].to_double() < 0) {
    fail(Fix{"give a p of at least 0"}, "cdist: p is {}; it must not be negative", args[2].text());
  }
  const DTensor difference =
      calls.one("sub.Tensor", {calls.one("unsqueeze", {a, -2}), calls.one("unsqueeze", {b, -3})});
  return {norm_of(calls, difference, args[2], Dims{-1}, false)};
}

// The gradients of distances: the part of each difference of two coordinates in its distance.

/// The slope of a distance in the coordinates whose difference is given, times its gradient.
Expression distance_slope(const Expression& gradient, const Expression& difference,
                          const Expression& distance, double p) {
  const Expression size = difference.of("aten::abs"), sign = difference.of("aten::sgn");
  if (p == 0) return difference * 0.0;
  if (p == 1) return gradient * sign;
  if (std::isinf(p)) return (gradient * sign).filled(!size.eq(distance), 0);
  // Without a slope, none of its parts may be infinite: their gradients are read, too.
  const Expression none = distance.eq(0) || size.eq(0);
  const Expression part = size.filled(none, 1), whole = distance.filled(none, 1);
  const Expression share = (part / whole).with("aten::pow.Tensor_Scalar", p - 1);
  return (gradient * sign * share).filled(none, 0);
}

/// To the rows of the first matrix. A slope has steps, whose sides are those of whole rows.
Expression sent_to_rows(Calls& calls, const DTensor& gradient, const DTensor& rows,
                        const DTensor& others, const DTensor& distances, double p) {
  const auto beside = [&](const DTensor& x, std::int64_t dim) -> Expression {
    return {calls, calls.one("unsqueeze", {x, dim})};
  };
  const Expression row = beside(grad::reduced(calls, rows), -2);
  const Expression difference = row - beside(grad::reduced(calls, others), -3);
  const Expression flow = beside(gradient, -1), distance = beside(distances, -1);
  const Expression slope = distance_slope(flow, difference, distance, p);
  return {calls, calls.one("sum.dim_IntList", {slope, Dims{-2}})};
}

/// _cdist_backward(grad_output, x1, x2, p, cdist): to x1
Results cdist_backward(Calls& calls, const Arguments& args) {
  const DTensor &gradient = args[0].tensor(), &distances = args[4].tensor();
  if (gradient.shape() != distances.shape()) {
    fail(
        Fix{"pass the gradient of what cdist gave"},
        "_cdist_backward: the gradient has {} elements, the distances {}; they must have one shape",
        gradient.numel(), distances.numel());
  }
  require_one_dtype("_cdist_backward",
                    {{"x1", args[1]}, {"x2", args[2]}, {"grad", args[0]}, {"cdist", args[4]}});
  if (distances.numel() == 0) return {calls.one("zeros_like", {args[1]})};
  return {sent_to_rows(calls, gradient, args[1].tensor(), args[2].tensor(), distances,
                       args[3].to_double())};
}

/// A result of pdist, as a symmetric matrix of `count` rows.
DTensor of_all_pairs(Calls& calls, const DTensor& pairs, std::int64_t count) {
  ArgumentList rows;
  for (std::int64_t i = 0, first = 0; i < count; ++i) {
    const std::int64_t later = count - 1 - i;
    const DTensor row = calls.one("slice.Tensor", {pairs, 0, first, first + later});
    rows.emplace_back(calls.one("slice_backward", {row, Dims{count}, 0, i + 1, count, 1}));
    first += later;
  }
  const DTensor upper = calls.one("stack", {rows, 0});
  return calls.one("add.Tensor", {upper, calls.one("t", {upper})});
}

/// _pdist_backward(grad_output, self, p, pdist)
Results pdist_backward(Calls& calls, const Arguments& args) {
  const DTensor &gradient = args[0].tensor(), &x = args[1].tensor(), &distances = args[3].tensor();
  const std::int64_t count = x.ndim() == 2 ? x.shape()[0] : 0;
  const Dims pairs{count * (count - 1) / 2};
  if (x.ndim() != 2 || gradient.shape() != pairs || distances.shape() != pairs) {
    fail(Fix{"pass the gradient of what pdist gave, and that"},
         "_pdist_backward: there are {} gradients and {} distances of a tensor of {} dims",
         gradient.numel(), distances.numel(), x.ndim());
  }
  if (count <= 1) return {calls.one("zeros_like", {x})};
  const DTensor flow = of_all_pairs(calls, gradient, count);
  const DTensor apart = of_all_pairs(calls, distances, count);
  return {sent_to_rows(calls, flow, x, x, apart, args[2].to_double())};
}

/// The factors of _trilinear may differ in dtype where the reference multiplies them by elements:
/// where it sums, except over the dim that it unrolls, the two that it brings together are
/// matrices.
void check_trilinear_dtypes(const Arguments& args) {
  const DType first = args[0].tensor().dtype(), second = args[1].tensor().dtype(),
              third = args[2].tensor().dtype();
  const Dims beside_third = ints_of(args[5]);
  for (const std::int64_t dim : ints_of(args[6])) {
    if (dim == args[7].to_int()) continue;
    const bool both = std::ranges::find(beside_third, dim) != beside_third.end();
    const DType left = both ? first : promote(first, second), right = both ? second : third;
    if (left == right) continue;
    fail(
        Fix{"cast the factors to one dtype"},
        "_trilinear: dim {} is summed over a product of {} and {}; the factors must have one dtype",
        dim, to_string(left), to_string(right));
  }
}

/// _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim): the product of three,
/// each with dims of size 1 put in, summed, in the dtype of the first
Results trilinear(Calls& calls, const Arguments& args) {
  check_trilinear_dtypes(args);
  DTensor factors[3];
  for (std::size_t i = 0; i < 3; ++i) {
    Dims added = ints_of(args[3 + i]);
    std::sort(added.begin(), added.end());
    factors[i] = args[i].tensor();
    for (const std::int64_t dim : added) factors[i] = calls.one("unsqueeze", {factors[i], dim});
  }
  const DTensor product =
      calls.one("mul.Tensor", {calls.one("mul.Tensor", {factors[0], factors[1]}), factors[2]});
  check_category(calls.find("aten::_trilinear"), product.dtype(), factors[0].dtype());
  const Dims summed = ints_of(args[6]);
  const DTensor sums =
      summed.empty() ? product
                     : calls.one("sum.dim_IntList", {product, summed, false, product.dtype()});
  return {cast_to(calls, sums, factors[0].dtype())};
}

/// The gradient of one factor is the product of the gradient and the others, where summed dims are
/// put in, and those that it lacks are summed.
grad::Gradients grad_trilinear(const GradContext& context) {
  constexpr std::size_t kAdded = 3, kSummed = 6;
  return grad::each_of(context, 3, [&](std::size_t i) {
    Arguments args = context.inputs;
    args[i] = context.grads[0];
    std::swap(args[kAdded + i], args[kSummed]);
    const DTensor product = context.calls.one("aten::_trilinear", std::move(args));
    return grad::sum_to(context.calls, product, grad::input(context, i));
  });
}

/// _euclidean_dist(x1, x2): of each row to each row, by one product
Results euclidean_dist(Calls& calls, const Arguments& args) {
  const Expression a(calls, args[0].tensor()), b(calls, args[1].tensor());
  const auto square = [&](const Expression& x) {
    return calls.one("sum.dim_IntList", {x * x, Dims{-1}, true});
  };
  const auto beside = [&](const DTensor& x, const DTensor& y, const DTensor& z) {
    return calls.one("cat", {ArgumentList{x, y, z}, -1});
  };
  const DTensor of_a = square(a), of_b = square(b);
  const Expression twice = a * -2.0;
  const DTensor left = beside(twice, of_a, calls.one("ones_like", {of_a}));
  const DTensor right = beside(b, calls.one("ones_like", {of_b}), of_b);
  const DTensor squares = matmul(calls, left, calls.one("mT", {right}));
  return {calls.one("sqrt", {calls.one("clamp_min", {squares, 0})})};
}

/// All dims but `dim`.
Dims other_dims(const DTensor& x, std::int64_t dim) {
  Dims dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(x.ndim()); ++d) {
    if (d != dim) dims.push_back(d);
  }
  return dims;
}

/// renorm(self, p, dim, maxnorm): slices of a larger norm are made smaller
Results renorm(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const double most = args[3].to_double();
  if (x.ndim() < 2 || !(args[1].to_double() > 0) || !(most >= 0)) {
    fail(Fix{"give at least two dims, a positive p and a maxnorm of at least 0"},
         "renorm: p is {}, maxnorm is {}, the tensor has {} dims; they must be above 0, at least "
         "0, and at least 2",
         args[1].text(), args[3].text(), x.ndim());
  }
  const std::int64_t dim = wrap_dim(args[2].to_int(), x.ndim());
  const Expression wide = Expression(calls, x).to(f32_for_half(x.dtype()));
  const Expression norm(calls, norm_of(calls, wide, args[1], other_dims(x, dim), true));
  const Expression factor = (norm + 1e-7).of("aten::reciprocal") * most;
  const Expression kept = norm.of("aten::ones_like");
  return {Expression(calls, x).times(norm.gt(most).choose(factor, kept).to(x.dtype()))};
}

/// g * v / |v| for norms over all dims but `dim` (-1: over all), and the norms
Results normed_weight(Calls& calls, const Arguments& args, std::int64_t dim) {
  const DTensor& v = args[0].tensor();
  const Expression norm(calls, norm_of(calls, v, 2, other_dims(v, dim), true));
  const Expression scale = Expression(calls, args[1].tensor()) / norm;
  return {Expression(calls, v) * scale, norm};
}

/// _weight_norm_interface(v, g, dim)
Results weight_norm(Calls& calls, const Arguments& args) {
  return normed_weight(calls, args, wrap_dim(args[2].to_int(), args[0].tensor().ndim()));
}

/// _weight_norm_interface_backward(grad_w, saved_v, saved_g, saved_norms, dim)
Results weight_norm_backward(Calls& calls, const Arguments& args) {
  const DTensor& v = args[1].tensor();
  const Dims others = other_dims(v, wrap_dim(args[4].to_int(), v.ndim()));
  const Expression grad(calls, args[0].tensor()), direction(calls, v);
  const Expression scale(calls, args[2].tensor()), norm(calls, args[3].tensor());
  const Expression product = grad * direction;
  const Expression along =
      others.empty() ? product
                     : Expression(calls, calls.one("sum.dim_IntList", {product, others, true}));
  const Expression of_scale = along / norm;
  const Expression turned = of_scale / norm;
  const Expression radial = direction * turned;
  const Expression tangent = grad - radial;
  const Expression factor = scale / norm;
  return {(tangent * factor).to(v.dtype()), of_scale.to(args[2].tensor().dtype())};
}

/// _weight_norm(v, g, dim): the same without the norms; -1 is the norm of all elements
Results weight_norm_alone(Calls& calls, const Arguments& args) {
  if (args[2].to_int() != -1) return {weight_norm(calls, args)[0]};
  return {normed_weight(calls, args, -1)[0]};
}

// Products added to a tensor

DTensor scaled(Calls& calls, const DTensor& x, const Argument& factor) {
  if (factor.scalar().is_one()) return x;
  // For bool a factor means yes or no, not a count.
  if (x.dtype() == DType::kBool) return calls.one("mul.Scalar", {x, factor.to_double() != 0});
  return calls.one("mul.Scalar", {x, is_integral(x.dtype()) ? Argument(factor.to_int()) : factor});
}

/// self * beta + product * alpha; a beta of 0 drops self, NaN too.
Results added(Calls& calls, const Arguments& args, const DTensor& product) {
  const DTensor& self = args[0].tensor();
  const DTensor times = scaled(calls, product, args[4]);
  const TensorMeta* const both[] = {&times.meta(), &self.meta()};
  if (broadcast_shapes(calls.find("add.Tensor").op, both) != times.shape()) {
    fail(Fix{"give a tensor that broadcasts to the product"},
         "a tensor of {} dims cannot be added to a product of {}", self.ndim(), times.ndim());
  }
  if (!args[3].scalar().to_bool()) return {times};
  return {calls.one("add.Tensor", {times, scaled(calls, self, args[3])})};
}

/// A product of matrices times an alpha of 0 is 0, whatever its factors.
Results added_matrices(Calls& calls, const Arguments& args, const DTensor& product) {
  const bool nothing = !args[4].scalar().to_bool();
  return added(calls, args, nothing ? calls.one("zeros_like", {product}) : product);
}

/// addmv(self, mat, vec, *, beta, alpha)
Results addmv(Calls& calls, const Arguments& args) {
  return added_matrices(calls, args, calls.one("mv", {args[1], args[2]}));
}

/// Each element of a column times each of a row.
DTensor outer_product(Calls& calls, const char* op, const Argument& column, const Argument& row) {
  const std::size_t dims[] = {column.tensor().ndim(), row.tensor().ndim()};
  if (dims[0] != 1 || dims[1] != 1) {
    fail(Fix{"flatten them: x.flatten()"}, "{} takes two tensors of one dim, not of {} and {}", op,
         dims[0], dims[1]);
  }
  return calls.one("mul.Tensor", {calls.one("unsqueeze", {column, 1}), row});
}

/// addr(self, vec1, vec2, *, beta, alpha)
Results addr(Calls& calls, const Arguments& args) {
  return added(calls, args, outer_product(calls, "addr", args[1], args[2]));
}

/// ger, outer(self, vec2)
Results outer(Calls& calls, const Arguments& args) {
  return {outer_product(calls, "outer", args[0], args[1])};
}

/// addbmm(self, batch1, batch2, *, beta, alpha): all products of a batch in one sum
Results addbmm(Calls& calls, const Arguments& args) {
  const DTensor products = calls.one("bmm", {args[1], args[2]});
  return added_matrices(calls, args,
                        calls.one("sum.dim_IntList", {products, Dims{0}, false, products.dtype()}));
}

/// addmm.dtype, baddbmm.dtype(self, a, b, out_dtype, *, beta, alpha): in another dtype
template <FixedText op>
Results added_in_dtype(Calls& calls, const Arguments& args) {
  Arguments given{args[0], args[1], args[2], args[4], args[5]};
  for (std::size_t i = 0; i < 3; ++i) {
    given[i] = Expression(calls, args[i].tensor()).to(args[3].dtype());
  }
  return calls(op, given);
}

/// mm.dtype, bmm.dtype(self, mat2, out_dtype): halves may be added up in f32
template <FixedText op>
Results product_in_dtype(Calls& calls, const Arguments& args) {
  const DType given = args[0].tensor().dtype(), wanted = args[2].dtype();
  if (args[1].tensor().dtype() != given) {
    fail(Fix{"cast one of them"}, "{} takes factors of one dtype, not {} and {}", op,
         to_string(given), to_string(args[1].tensor().dtype()));
  }
  if (wanted != given && wanted != f32_for_half(given)) {
    fail(Fix{"leave out_dtype out and cast the result, or the factors"},
         "{}: out_dtype is {}; it must be the dtype of the factors, {}, or f32 for f16 and bf16",
         op, to_string(wanted), to_string(given));
  }
  DTensor wide[2];
  for (const std::size_t i : {0, 1}) wide[i] = cast_to(calls, args[i].tensor(), wanted);
  return calls(op, {wide[0], wide[1]});
}

/// _int_mm(self, mat2): bytes, summed in i32
Results int_mm(Calls& calls, const Arguments& args) {
  DTensor wide[2];
  for (const std::size_t i : {0, 1}) {
    const DTensor& factor = args[i].tensor();
    if (factor.dtype() != DType::kI8) {
      fail(Fix{"convert the factors to i8, or use mm"},
           "_int_mm multiplies matrices of i8, not of {}", to_string(factor.dtype()));
    }
    wide[i] = cast_to(calls, factor, DType::kI32);
  }
  return calls("mm", {wide[0], wide[1]});
}

grad::Gradients grad_addmv(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  return grad::of_added_product(context, [&](std::size_t i) {
    if (i == 1) return outer_product(calls, "aten::addmv", gradient, grad::input(context, 2));
    return calls.one("aten::mv", {calls.one("aten::t", {grad::input(context, 1)}), gradient});
  });
}

grad::Gradients grad_addr(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  return grad::of_added_product(context, [&](std::size_t i) {
    const DTensor turned = i == 1 ? gradient : calls.one("aten::t", {gradient});
    return calls.one("aten::mv", {turned, grad::input(context, 3 - i)});
  });
}

grad::Gradients grad_addbmm(const GradContext& context) {
  Calls& calls = context.calls;
  const auto turned = [&](std::size_t i) {
    return calls.one("aten::transpose.int", {grad::input(context, i), 1, 2});
  };
  return grad::of_added_product(context, [&](std::size_t i) {
    const DTensor& gradient = context.grads[0];
    const Dims& rows = gradient.shape();
    const std::int64_t count = grad::input(context, 1).shape()[0];
    const DTensor each = calls.one("aten::expand", {gradient, Dims{count, rows[0], rows[1]}});
    return i == 1 ? calls.one("aten::bmm", {each, turned(2)})
                  : calls.one("aten::bmm", {turned(1), each});
  });
}

/// _addmm_activation(self, mat1, mat2, *, beta, alpha, use_gelu)
Results addmm_activation(Calls& calls, const Arguments& args) {
  const DTensor product = calls.one("addmm", {args[0], args[1], args[2], args[3], args[4]});
  return {args[5].to_bool() ? calls.one("gelu", {product}) : calls.one("relu", {product})};
}

/// Half types are computed in f32, so that sums are rounded once.
template <PartsFn parts>
Results rounded_once(Calls& calls, const Arguments& args) {
  const DType dtype = args[0].tensor().dtype();
  const auto is_of_it = [&](const Argument& argument) {
    return !argument.is_tensor() || argument.tensor().dtype() == dtype;
  };
  const DType wide = f32_for_half(dtype);
  if (wide == dtype || !std::ranges::all_of(args, is_of_it)) return parts(calls, args);
  Arguments in_f32 = args;
  for_each_tensor(in_f32, [&](DTensor& x) { x = cast_to(calls, x, wide); });
  return {cast_to(calls, parts(calls, in_f32)[0].tensor(), dtype)};
}

constexpr const char* kAdded = "a product and a sum";

// Sorted by name.
// clang-format off
constexpr Row kDistanceRows[] = {
    composite("_addmm_activation"_op, addmm_activation, "addmm and relu or gelu"),
    composite("_cdist_backward"_op, cdist_backward, {nullptr, "grad_output x1 x2 cdist"},
              "powers of differences"),
    composite("_euclidean_dist"_op, euclidean_dist, "matmul"),
    composite("_int_mm"_op, int_mm, "mm of i32", kNotDifferentiable),
    composite("_pdist_backward"_op, pdist_backward, {nullptr, "grad_output self pdist"},
              "powers of differences"),
    composite("_trilinear"_op, rounded_once<trilinear>,
              {grad_trilinear, "i1:i2|i3 i2:i1|i3 i3:i1|i2"}, "mul and sum"),
    composite("_weight_norm"_op, weight_norm_alone, "linalg_vector_norm"),
    composite("_weight_norm_interface"_op, weight_norm, "linalg_vector_norm"),
    composite("_weight_norm_interface_backward"_op, weight_norm_backward, "a sum"),
    composite("addbmm"_op, rounded_once<addbmm>,
              {grad::holomorphic<grad_addbmm>, "batch1:batch2 batch2:batch1"}, kAdded),
    composite("addmm.dtype"_op, added_in_dtype<"addmm">, "addmm"),
    composite("addmv"_op, rounded_once<addmv>, {grad::holomorphic<grad_addmv>, "mat:vec vec:mat"},
              kAdded),
    composite("addr"_op, rounded_once<addr>, {grad::holomorphic<grad_addr>, "vec1:vec2 vec2:vec1"},
              kAdded),
    composite("baddbmm.dtype"_op, added_in_dtype<"baddbmm">, "baddbmm"),
    composite("bmm.dtype"_op, product_in_dtype<"bmm">, "bmm"),
    composite("cdist"_op, cdist, {nullptr, "x1 x2 result"}, "linalg_vector_norm of differences"),
    composite("dist"_op, dist, "linalg_vector_norm"),
    composite("ger"_op, outer, "a product of a column and a row"),
    composite("mm.dtype"_op, product_in_dtype<"mm">, "mm"),
    composite("outer"_op, outer, "a product of a column and a row"),
    composite("pairwise_distance"_op, pairwise_distance, "linalg_vector_norm"),
    composite("pdist"_op, pdist, "linalg_vector_norm of differences"),
    composite("renorm"_op, renorm, "linalg_vector_norm"),
};
// clang-format on

}  // namespace

void register_distance(OpRegistry& registry) { add_rows(registry, kDistanceRows); }

}  // namespace shardlab
