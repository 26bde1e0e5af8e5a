// Matrix products: einsum rules as data.
#include "mesh/type_string.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

constexpr const char* kLinear = "linear in each operand; a cut contraction leaves partial sums";
constexpr const char* kLinearPlus = "as the product; the added operand is laid out like the result";

[[noreturn]] void refuse_product(const OpDescriptor& op, const TensorMeta& a, const TensorMeta& b) {
  const char* const fix =
      a.dtype == b.dtype
          ? "give sizes that fit, such as [m, k] and [k, n]; y.mT exchanges the last two dims"
          : "cast one of them: y.to(x.dtype)";
  fail(Fix{fix}, "{}: {} and {} cannot be multiplied", op.name(), type_string(a), type_string(b));
}

/// Batch dims agree, the last dim of `a` is contracted with dim `contracted` of `b`.
TensorMeta product_meta(const OpDescriptor& op, const TensorMeta& a, const TensorMeta& b,
                        std::size_t ndim) {
  if (a.shape.size() != ndim || b.shape.size() != ndim || a.dtype != b.dtype ||
      a.shape[ndim - 1] != b.shape[ndim - 2] || (ndim == 3 && a.shape[0] != b.shape[0])) {
    refuse_product(op, a, b);
  }
  Dims shape = a.shape;
  shape[ndim - 1] = b.shape[ndim - 1];
  return contiguous_meta(shape, a.dtype);
}

template <std::size_t kNdim>
OutputMetas meta_product(const MetaArgs& args) {
  return {{product_meta(args.op(), *args.tensor(0), *args.tensor(1), kNdim)}};
}

template <std::size_t kNdim>
OutputMetas meta_product_plus(const MetaArgs& args) {
  const TensorMeta product = product_meta(args.op(), *args.tensor(1), *args.tensor(2), kNdim);
  const TensorMeta* const both[] = {&product, args.tensor(0)};
  if (!(broadcast_shapes(args.op(), both) == product.shape) ||
      args.tensor(0)->dtype != product.dtype) {
    fail(
        Fix{fmt::format("add a tensor that broadcasts to {}, of that dtype", type_string(product))},
        "{}: {} cannot be added to {}", args.op().name(), type_string(*args.tensor(0)),
        type_string(product));
  }
  return {{product}};
}

OutputMetas meta_dot(const MetaArgs& args) {
  const TensorMeta& a = *args.tensor(0);
  const TensorMeta& b = *args.tensor(1);
  if (a.shape.size() != 1 || !(a.shape == b.shape) || a.dtype != b.dtype) {
    refuse_product(args.op(), a, b);
  }
  return {{contiguous_meta(Dims{}, a.dtype)}};
}

OutputMetas meta_mv(const MetaArgs& args) {
  const TensorMeta& matrix = *args.tensor(0);
  const TensorMeta& vector = *args.tensor(1);
  const bool fits = matrix.shape.size() == 2 && vector.shape.size() == 1 &&
                    matrix.shape[1] == vector.shape[0] && matrix.dtype == vector.dtype;
  if (!fits) {
    fail(Fix{"give shapes [m, n] and [n], and one dtype"},
         "mv takes a matrix and a vector as long as its rows, not {} and {}", type_string(matrix),
         type_string(vector));
  }
  return {{contiguous_meta(Dims{matrix.shape[0]}, matrix.dtype)}};
}

// self * beta + first @ second * alpha; `turned` swaps the dims of a factor.
Gradients added_product(const GradContext& context, const char* product, const auto& turned) {
  return of_added_product(context, [&](std::size_t factor) {
    const DTensor& gradient = context.grads[0];
    const DTensor other = turned(input(context, 3 - factor));
    return factor == 1 ? context.calls.one(product, {gradient, other})
                       : context.calls.one(product, {other, gradient});
  });
}

Gradients grad_addmm(const GradContext& context) {
  return added_product(context, "aten::mm",
                       [&](const DTensor& x) { return context.calls.one("aten::t", {x}); });
}

Gradients grad_baddbmm(const GradContext& context) {
  return added_product(context, "aten::bmm", [&](const DTensor& x) {
    return context.calls.one("aten::transpose.int", {x, 1, 2});
  });
}

Gradients grad_bmm(const GradContext& context) {
  Calls& calls = context.calls;
  const auto turned = [&](std::size_t index) {
    return calls.one("aten::transpose.int", {input(context, index), 1, 2});
  };
  return each(
      context,
      [&] {
        return calls.one("aten::bmm", {context.grads[0], turned(1)});
      },
      [&] {
        return calls.one("aten::bmm", {turned(0), context.grads[0]});
      });
}

Gradients grad_dot(const GradContext& context) {
  return each_of(context, 2, [&](std::size_t i) {
    return multiply(context.calls, context.grads[0], input(context, 1 - i));
  });
}

Gradients grad_mm(const GradContext& context) {
  const Expression g = flowing(context);
  return each(
      context, [&] { return g.with("aten::mm", in(context, 1).of("aten::t")); },
      [&] { return in(context, 0).of("aten::t").with("aten::mm", g); });
}

Gradients grad_mv(const GradContext& context) {
  Calls& calls = context.calls;
  return each(
      context,
      [&] {
        const DTensor column = calls.one("aten::unsqueeze", {context.grads[0], 1});
        const DTensor row = calls.one("aten::unsqueeze", {input(context, 1), 0});
        return multiply(calls, column, row);
      },
      [&] { return in(context, 0).of("aten::t").with("aten::mv", context.grads[0]); });
}

/// vdot(self, other): the first factor is conjugated.
Results vdot(Calls& calls, const Arguments& args) {
  return {calls.one("aten::dot", {conjugated(calls, args[0].tensor()), args[1]})};
}

// Sorted by name.
// clang-format off
constexpr Row kMatrixRows[] = {
    {"addmm"_op, meta_product_plus<2>, FactorRule{"+mn,mk,kn->mn"}, KernelId::kAddmm,
     {holomorphic<grad_addmm>, "mat1:mat2 mat2:mat1"}, kLinearPlus, kSumsLinearly},
    {"baddbmm"_op, meta_product_plus<3>, FactorRule{"+bmn,bmk,bkn->bmn"}, KernelId::kBaddbmm,
     {holomorphic<grad_baddbmm>, "batch1:batch2 batch2:batch1"}, kLinearPlus, kSumsLinearly},
    {"bmm"_op, meta_product<3>, FactorRule{"bmk,bkn->bmn"}, KernelId::kBmm,
     {holomorphic<grad_bmm>, "self:mat2 mat2:self"}, kLinear, kSumsLinearly},
    {"dot"_op, meta_dot, FactorRule{"i,i->"}, KernelId::kDot,
     {holomorphic<grad_dot>, "self:tensor tensor:self"}, kLinear, kSumsLinearly},
    {"mm"_op, meta_product<2>, FactorRule{"mk,kn->mn"}, KernelId::kMm,
     {holomorphic<grad_mm>, "self:mat2 mat2:self"}, kLinear, kSumsLinearly},
    {"mv"_op, meta_mv, FactorRule{"mk,k->m"}, KernelId::kMv,
     {holomorphic<grad_mv>, "self:vec vec:self"}, kLinear, kSumsLinearly},
    composite("vdot"_op, vdot, "dot, with the first factor conjugated"),
};
// clang-format on

}  // namespace

void register_matrix(OpRegistry& registry) { add_rows(registry, kMatrixRows); }

}  // namespace shardlab
