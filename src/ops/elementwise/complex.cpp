// Complex numbers of their parts, and parts of complex numbers. Nothing here only marks a tensor
// as conjugated: its conjugate is computed.
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

/// complex(real, imag), polar(abs, angle): two tensors of f32 or of f64.
OutputMetas meta_of_parts(const MetaArgs& args) {
  const DType dtype = args.tensor(0)->dtype;
  const bool wide = dtype == DType::kF32 || dtype == DType::kF64;
  if (!wide || args.tensor(1)->dtype != dtype) {
    fail(Fix{"cast both to torch.float32, or both to torch.float64"},
         "{} takes two tensors of float32 or two of float64, not {} and {}", args.op().name(),
         to_string(dtype), to_string(args.tensor(1)->dtype));
  }
  return {elementwise_meta(args, tensor_operands(args),
                           dtype == DType::kF32 ? DType::kC64 : DType::kC128)};
}

DTensor of_parts(const Expression& real, const Expression& imaginary) {
  Calls& calls = real.calls();
  const ArgumentList both{real, imaginary};
  return calls.one("aten::view_as_complex", {calls.one("aten::stack", {both, -1})});
}

Results complex_of(Calls& calls, const OpRow& row, const Arguments& args) {
  const TensorMeta* const both[] = {&args[0].tensor().meta(), &args[1].tensor().meta()};
  const Dims shape = broadcast_shapes(row.op, both);
  const auto stretched = [&](const Argument& x) {
    return Expression(calls, calls.one("aten::expand", {x, shape}));
  };
  const Expression real = stretched(args[0]), imaginary = stretched(args[1]);
  return {of_parts(real, imaginary)};
}

Results polar(Calls& calls, const OpRow&, const Arguments& args) {
  const Expression size(calls, args[0].tensor()), angle(calls, args[1].tensor());
  const Expression along = size * angle.of("aten::cos"), across = size * angle.of("aten::sin");
  return {of_parts(along, across)};
}

Gradients grad_complex(const GradContext& context) {
  return each(
      context, [&] { return complex_part(flowing(context), 0); },
      [&] { return complex_part(flowing(context), 1); });
}

/// Along the ray, and across it times its length.
Gradients grad_polar(const GradContext& context) {
  const Expression g = flowing(context), x = complex_part(g, 0), y = complex_part(g, 1);
  const Expression cosine = in(context, 1).of("aten::cos"), sine = in(context, 1).of("aten::sin");
  return each(
      context, [&] { return (x * cosine).plus(y * sine); },
      [&] { return (y * cosine).minus(x * sine) * in(context, 0); });
}

/// real(self): itself where there is no other part.
Results real_part(Calls& calls, const Arguments& args) {
  const Expression x(calls, args[0].tensor());
  return {Argument(is_complex(x.value().dtype()) ? complex_part(x, 0).value() : x.value())};
}

Results imaginary_part(Calls& calls, const Arguments& args) {
  const Expression x(calls, args[0].tensor());
  if (!is_complex(x.value().dtype())) {
    fail(Fix{"use torch.zeros_like(x)"}, "imag takes complex tensors, not {}",
         to_string(x.value().dtype()));
  }
  return {complex_part(x, 1)};
}

/// conj(self), resolve_conj(self), resolve_neg(self)
Results conjugate_of(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return {Argument(is_complex(x.dtype()) ? calls.one("aten::_conj", {x}) : x)};
}
Results itself(Calls&, const Arguments& args) { return {args[0]}; }

constexpr const char* kParts = "element by element";

// Sorted by name.
// clang-format off
constexpr Row kComplexRows[] = {
    {"complex"_op, meta_of_parts, PointwiseRule{"sss aaa aar ara"}, complex_of, {grad_complex, ""},
     kParts, kAllowUneven | kExact},
    composite("conj"_op, conjugate_of, "_conj where it is another number"),
    composite("imag"_op, imaginary_part, "view_as_real and select"),
    {"polar"_op, meta_of_parts, PointwiseRule{"ssr aar"}, polar, {grad_polar, "abs:angle angle"},
     kParts, kAllowUneven | kExact},
    composite("real"_op, real_part, "view_as_real and select"),
    composite("resolve_conj"_op, itself, "conjugates are computed at once"),
    composite("resolve_neg"_op, itself, "negatives are computed at once"),
};
// clang-format on

}  // namespace

void register_complex(OpRegistry& registry) { add_rows(registry, kComplexRows); }

}  // namespace shardlab
