// Numbers rounded to a grid and back, as quantization-aware training has them. The gradient passes
// where the grid has a place for the number.
#include "ops/family.h"

namespace shardlab {
namespace {

/// The number that the grid has for each element, and whether it lies inside of the grid. `scale`,
/// its inverse and `zero` are numbers, or tensors that broadcast.
template <class Number>
Results on_grid(const Expression& x, const Number& scale, const Number& inverse, const Number& zero,
                const Argument& least, const Argument& most) {
  const Expression place = (x * inverse).of("round") + zero;
  const Expression inside = place.ge(least) && place.le(most);
  const DTensor clamped = x.calls().one("clamp", {place, least, most});
  return {((Expression(x.calls(), clamped) - zero) * scale).to(x.value().dtype()), inside};
}

/// fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max): the
/// inverse is rounded to f32
Results of_tensor(Calls& calls, const Arguments& args) {
  const double scale = args[1].to_double();
  const auto inverse = static_cast<double>(1 / static_cast<float>(scale));
  return on_grid({calls, args[0].tensor()}, scale, inverse, args[2].to_double(), args[3], args[4]);
}

/// _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, zero_point,
/// fake_quant_enabled, quant_min, quant_max)
Results of_tensor_by_tensors(Calls& calls, const Arguments& args) {
  const Expression x(calls, args[0].tensor());
  const Expression scale(calls, calls.one("sum", {args[1]})), zero(calls, args[2].tensor());
  const Expression inverse = scale.of("reciprocal"), own_zero = zero.of("sum");
  const Results made = on_grid(x, scale, inverse, own_zero, args[4], args[5]);
  const Expression on(calls, calls.one("any", {args[3]}));
  const Expression own(calls, made[0].tensor()), inside(calls, made[1].tensor());
  return {on.choose(own, x), !on || inside};
}

/// fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max)
Results of_channel(Calls& calls, const Arguments& args) {
  const Expression x(calls, args[0].tensor());
  const auto along_axis = [&](const Argument& channels) {
    Expression along(calls, channels.tensor());
    for (auto dim = static_cast<std::int64_t>(x.value().ndim()); --dim > args[3].to_int();) {
      along = along.with("unsqueeze", -1);
    }
    return along;
  };
  const Expression scale = along_axis(args[1]), zero = along_axis(args[2]);
  const Expression inverse = scale.of("reciprocal");
  return on_grid(x, scale, inverse, zero, args[4], args[5]);
}

template <std::size_t tensors>
grad::Gradients grad_inside(const GradContext& context) {
  grad::Gradients gradients(tensors);
  const DTensor& inside = context.outputs[1].tensor();
  gradients[0] = context.calls.one("mul.Tensor", {context.grads[0], inside});
  return gradients;
}

constexpr const char* kGrid = "a product, round, clamp and a product";

// Sorted by name.
// clang-format off
constexpr Row kGridPlaceRows[] = {
    composite("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"_op, of_tensor_by_tensors,
              {grad_inside<4>, "result1"}, kGrid),
    composite("fake_quantize_per_channel_affine_cachemask"_op, of_channel,
              {grad_inside<3>, "result1"}, kGrid),
    composite("fake_quantize_per_channel_affine_cachemask_backward"_op, by_op<"mul.Tensor">, "mul"),
    composite("fake_quantize_per_tensor_affine_cachemask"_op, of_tensor,
              {grad_inside<1>, "result1"}, kGrid),
    composite("fake_quantize_per_tensor_affine_cachemask_backward"_op, by_op<"mul.Tensor">, "mul"),
};
// clang-format on

}  // namespace

void register_fake_quantize(OpRegistry& registry) { add_rows(registry, kGridPlaceRows); }

}  // namespace shardlab
