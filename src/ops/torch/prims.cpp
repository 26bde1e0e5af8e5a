// Ops of the reference's own decompositions (prims) that are called otherwise than their ATen kin:
// reductions over a list of dims, a conversion, a division that truncates whole numbers.
#include <algorithm>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

// (inp, dims, *, output_dtype): None means all dims, an empty list none.

bool reduces_nothing(const Argument& dims) { return !dims.is_none() && ints_of(dims).empty(); }

DTensor in_dtype(Calls& calls, const DTensor& x, const Argument& dtype) {
  return Expression(calls, x).to(dtype_or(dtype, x.dtype()));
}

Results sum_over(Calls& calls, const Arguments& args) {
  if (reduces_nothing(args[1])) return {in_dtype(calls, args[0].tensor(), args[2])};
  return calls("sum.dim_IntList", {args[0], args[1], false, args[2]});
}

Results product_over(Calls& calls, const Arguments& args) {
  if (reduces_nothing(args[1])) return {in_dtype(calls, args[0].tensor(), args[2])};
  DTensor x = args[0].tensor();
  if (args[1].is_none()) return calls("prod", {x, args[2]});
  Dims dims = wrap_dims(ints_of(args[1]), x.ndim());
  std::ranges::sort(dims, std::greater<>());
  for (const std::int64_t dim : dims) x = calls.one("prod.dim_int", {x, dim, false, args[2]});
  return {x};
}

template <FixedText op>
Results extremum_over(Calls& calls, const Arguments& args) {
  if (reduces_nothing(args[1])) return {in_dtype(calls, args[0].tensor(), args[2])};
  return {in_dtype(calls, calls.one(op, {args[0], ints_of(args[1])}), args[2])};
}

/// var(inp, dims, correction, *, output_dtype)
Results variance_over(Calls& calls, const Arguments& args) {
  return {in_dtype(calls, calls.one("var.correction", {args[0], args[1], args[2]}), args[3])};
}

/// convert_element_type(a, dtype)
OutputMetas meta_converted(const MetaArgs& args) {
  OutputMetas metas = meta_like(args);
  metas[0].meta.dtype = args[1].dtype();
  return metas;
}

OutputMetas meta_divided(const MetaArgs& args) {
  OutputMetas metas = meta_promoted(args);
  if (metas[0].meta.dtype == DType::kBool) metas[0].meta.dtype = DType::kF32;
  return metas;
}

/// div(self, other); of bool it is a number
Results divided(Calls& calls, const OpRow&, const Arguments& args) {
  const DType both = promote(args[0].tensor().dtype(), args[1].tensor().dtype());
  const bool whole = is_integral(both) && both != DType::kBool;
  if (!whole) return calls("div.Tensor", {args[0], args[1]});
  return calls("div.Tensor_mode", {args[0], args[1], "trunc"});
}

Gradients grad_divided(const GradContext& context) {
  const Expression a = in(context, 0), b = in(context, 1), share = flowing(context) / b;
  return each(
      context, [&] { return share; }, [&] { return -(share * a / b); });
}

// Sorted by name.
// clang-format off
constexpr Row kPrimReductions[] = {
    composite("prims::amax"_op, extremum_over<"amax">, "amax"),
    composite("prims::amin"_op, extremum_over<"amin">, "amin"),
    composite("prims::prod"_op, product_over, "prod"),
    composite("prims::sum"_op, sum_over, "sum"),
    composite("prims::var"_op, variance_over, "var"),
};

constexpr Row kPointwisePrims[] = {
    {"prims::convert_element_type"_op, meta_converted, kNone, KernelId::kConvert, {grad_pass, ""},
     "the reference lets no partial pass"},
    {"prims::div"_op, meta_divided, kNone, divided, {grad_divided, "self other"},
     "the reference lets no partial pass"},
};
// clang-format on

}  // namespace

void register_prims(OpRegistry& registry) {
  add_rows(registry, kPrimReductions);
  add_pointwise_rows(registry, kPointwisePrims);
}

}  // namespace shardlab
