// Normalisation over the last dims, which stay whole; weight and bias are replicated, and their
// gradients add up over the ranks.
#include <limits>

#include "ops/family.h"
#include "ops/nn/normalization.h"

namespace shardlab {
namespace {

using namespace grad;

using Rows = std::vector<RuleRow>;

/// Number of leading dims that are not normalised.
std::size_t outer_dims(const Dims& shape, const Dims& normalized) {
  bool fits = !normalized.empty() && normalized.size() <= shape.size();
  const std::size_t outer = fits ? shape.size() - normalized.size() : 0;
  for (std::size_t i = 0; fits && i < normalized.size(); ++i) {
    fits = shape[outer + i] == normalized[i];
  }
  if (!fits) {
    fail(Fix{"pass the last sizes of the input: x.shape[-1:]"},
         "the normalized shape [{}] is not the end of the input's shape [{}]",
         text_of_list(normalized, ", "), text_of_list(shape, ", "));
  }
  return outer;
}

/// `name`: the name of the wanted sizes.
void check_sizes(const MetaArgs& args, std::size_t index, const Dims& wanted,
                 std::string_view name) {
  const TensorMeta* tensor = args.tensor(index);
  if (tensor == nullptr || tensor->shape == wanted) return;
  fail(Fix{fmt::format("give it the shape [{}]", text_of_list(wanted, ", "))},
       "{}: {} has the shape [{}]; it must have {}", args.op().base,
       args.op().arguments[index].name, text_of_list(tensor->shape, ", "), name);
}

/// Weight and bias, where given.
void check_parameter(const MetaArgs& args, std::size_t index, const Dims& normalized) {
  check_sizes(args, index, normalized, "the normalized shape");
}

/// The statistics: one number per row.
TensorMeta statistics_meta(const Dims& shape, std::size_t outer, DType dtype) {
  Dims sizes = shape;
  for (std::size_t i = outer; i < sizes.size(); ++i) sizes[i] = 1;
  return contiguous_meta(sizes, dtype);
}

/// Weight and bias have the input's dtype, or for half precision both f32: returns their dtype,
/// which the statistics then have.
DType parameter_dtype(const MetaArgs& args, std::size_t input, std::size_t weight) {
  const DType own = args.tensor(input)->dtype;
  const TensorMeta *scale = args.tensor(weight), *shift = args.tensor(weight + 1);
  const TensorMeta* first = scale != nullptr ? scale : shift;
  if (first == nullptr) return own;
  if (scale != nullptr) check_argument_dtype(args, weight + 1, weight);
  if (is_half(own) && first->dtype == DType::kF32) return DType::kF32;
  for (const std::size_t index : {weight, weight + 1}) check_argument_dtype(args, index, input);
  return own;
}

/// native_layer_norm(input, normalized_shape, weight, bias, eps): output, mean, rstd
OutputMetas meta_layer_norm(const MetaArgs& args) {
  const TensorMeta& input = *args.tensor(0);
  const std::size_t outer = outer_dims(input.shape, ints_of(args[1]));
  for (const std::size_t index : {2, 3}) check_parameter(args, index, ints_of(args[1]));
  const TensorMeta statistics = statistics_meta(input.shape, outer, parameter_dtype(args, 0, 2));
  return {{contiguous_meta(input.shape, input.dtype)}, {statistics}, {statistics}};
}

/// _fused_rms_norm(input, normalized_shape, weight, eps): output, rstd
OutputMetas meta_rms_norm(const MetaArgs& args) {
  const TensorMeta& input = *args.tensor(0);
  const std::size_t outer = outer_dims(input.shape, ints_of(args[1]));
  check_parameter(args, 2, ints_of(args[1]));
  const DType dtype = f32_for_half(input.dtype);
  return {{contiguous_meta(input.shape, input.dtype)},
          {statistics_meta(input.shape, outer, dtype)}};
}

template <std::size_t outputs>
Rows rule_norm(const RuleContext& context) {
  const std::size_t outer =
      outer_dims(context.tensors[0]->shape(), ints_of(context.schema.args[1]));
  Rows rows;
  for (std::size_t d = 0; d < outer; ++d) {
    RuleRow row = uniform_row(RulePlacement::any(static_cast<std::int64_t>(d)), outputs, 1);
    row.inputs.resize(context.schema.tensor_specs().size(), placement_of_letter('r'));
    rows.push_back(std::move(row));
  }
  return rows;
}

// The backwards: (grad_output, input, normalized_shape, statistics.., weight, [bias,] output_mask)

bool mask_at(const Argument& mask, std::size_t index) { return mask.list()[index].to_bool(); }

/// A gradient is made where the mask wants it and there is a tensor for it.
OutputMeta masked_grad(const MetaArgs& args, std::size_t input, std::size_t output) {
  const TensorMeta* meta = args.tensor(input);
  if (meta == nullptr || !mask_at(args[args.size() - 1], output)) return {{}, false};
  return {contiguous_meta(meta->shape, meta->dtype)};
}

/// `statistics` of them follow the shape, then weight and bias.
void check_backward(const MetaArgs& args, std::size_t statistics) {
  const Dims& shape = args.tensor(1)->shape;
  const Dims normalized = ints_of(args[2]);
  const Dims rows = statistics_meta(shape, outer_dims(shape, normalized), DType::kF32).shape;
  check_sizes(args, 0, shape, "the shape of the input");
  const std::size_t parameters = 3 + statistics;
  for (std::size_t i = 3; i < parameters; ++i) check_sizes(args, i, rows, "one number per row");
  for (std::size_t i = parameters; i + 1 < args.size(); ++i) check_parameter(args, i, normalized);
}

OutputMetas meta_layer_norm_backward(const MetaArgs& args) {
  check_backward(args, 2);
  check_argument_dtype(args, 0, 1);
  const DType dtype = parameter_dtype(args, 1, 5);
  const bool parameters = args.tensor(5) != nullptr || args.tensor(6) != nullptr;
  for (const std::size_t index : {3, 4}) {
    if (parameters || args.tensor(index)->dtype != DType::kF32) {
      normalization::require_statistics(args, index, 1, dtype);
    }
  }
  return {masked_grad(args, 1, 0), masked_grad(args, 5, 1), masked_grad(args, 6, 2)};
}

OutputMetas meta_rms_norm_backward(const MetaArgs& args) {
  check_backward(args, 1);
  return {masked_grad(args, 1, 0), masked_grad(args, 4, 1)};
}

/// `statistics`: number of them before the weight.
template <std::size_t statistics>
Rows rule_norm_backward(const RuleContext& context) {
  const std::size_t outer =
      outer_dims(context.tensors[1]->shape(), ints_of(context.schema.args[2]));
  Rows rows;
  for (std::size_t d = 0; d < outer; ++d) {
    const RulePlacement shard = RulePlacement::any(static_cast<std::int64_t>(d));
    RuleRow row;
    for (std::size_t i = 0; i < context.outputs.size(); ++i) {
      if (!context.outputs[i].present) {
        row.outputs.push_back(RulePlacement::none());
      } else {
        row.outputs.push_back(i == 0 ? shard : placement_of_letter('s'));
      }
    }
    row.inputs.assign(2 + statistics, shard);
    row.inputs.resize(context.schema.tensor_specs().size(), placement_of_letter('r'));
    rows.push_back(std::move(row));
  }
  return rows;
}

Gradients grad_layer_norm(const GradContext& context) {
  if (!context.grads[0].defined()) return Gradients(3);
  return masked_gradients(
      context, "aten::native_layer_norm_backward",
      {context.grads[0], context.inputs[0], context.inputs[1], context.outputs[1],
       context.outputs[2], context.inputs[2], context.inputs[3]},
      3);
}

Expression widened(Calls& calls, const Argument& tensor) {
  return Expression(calls, tensor.tensor()).to(f32_for_half(tensor.tensor().dtype()));
}

/// The last dims, as many as `normalized` has sizes.
Dims row_dims(const Argument& normalized) {
  Dims dims;
  for (std::size_t i = ints_of(normalized).size(); i > 0; --i) {
    dims.push_back(-static_cast<std::int64_t>(i));
  }
  return dims;
}

using normalization::TakesOut, normalization::WayBack;

/// The common part of both backwards: (grad_out, input, normalized_shape, statistics.., weight,
/// ..), of which the last statistic is the root. `mean`: undefined for root mean squares.
WayBack rows_back(const GradContext& context, const DTensor& mean, std::size_t weight) {
  Calls& calls = context.calls;
  const Arguments& args = context.inputs;
  const Expression g = widened(calls, args[0]), x = widened(calls, args[1]);
  const Expression root = widened(calls, args[weight - 1]);
  const Expression normal = (mean.defined() ? x - Expression(calls, mean) : x) * root;
  const auto or_zeros = [&](std::size_t output) {
    const DTensor& given = context.grads[output];
    return given.defined() ? widened(calls, given) : Expression(calls, zeros_like(calls, g));
  };
  const Expression flow = args[weight].is_tensor() ? g * widened(calls, args[weight]) : g;
  return {flow,
          normal,
          root,
          or_zeros(0),
          or_zeros(1) * g,
          row_dims(args[2]),
          mean.defined() ? TakesOut::kMeanAndSlope : TakesOut::kSlope};
}

/// Adds the gradients of grad_out and of the weight, whose slots are 0 and `slot`.
void add_flow_gradients(const GradContext& context, const WayBack& back, std::size_t weight,
                        std::size_t slot, Gradients& gradients) {
  Calls& calls = context.calls;
  const Arguments& args = context.inputs;
  const Expression of_flow = back.of_flow();
  if (context.needs(0)) {
    Expression of_g = args[weight].is_tensor() ? of_flow * widened(calls, args[weight]) : of_flow;
    if (context.grads[1].defined()) of_g = of_g + back.normal * widened(calls, context.grads[1]);
    const bool has_bias = context.grads.size() > 2 && context.grads[2].defined();
    if (has_bias) of_g = of_g + widened(calls, context.grads[2]);
    gradients[0] = cast_like(calls, of_g, input(context, 0));
  }
  if (!args[weight].is_tensor() || !context.needs(slot)) return;
  const DTensor& like = args[weight].tensor();
  const DTensor product = of_flow * widened(calls, args[0]);
  gradients[slot] = cast_like(calls, sum_to(calls, product, like), like);
}

/// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask): the statistics are
/// those of the input.
Gradients grad_layer_norm_backward(const GradContext& context) {
  Gradients gradients(6);
  const DTensor& mean = context.inputs[3].tensor();
  const DTensor wide = cast_to(context.calls, mean, f32_for_half(mean.dtype()));
  const WayBack back = rows_back(context, wide, 5);
  add_flow_gradients(context, back, 5, 4, gradients);
  if (context.needs(1)) {
    gradients[1] = cast_like(context.calls, back.of_input(), input(context, 1));
  }
  return gradients;
}

/// (grad_out, input, normalized_shape, rstd, weight, output_mask)
Gradients grad_rms_norm_backward(const GradContext& context) {
  Gradients gradients(4);
  const WayBack back = rows_back(context, {}, 4);
  add_flow_gradients(context, back, 4, 3, gradients);
  if (context.needs(1)) {
    const DTensor of_input = back.of_normal() * back.root;
    gradients[1] = cast_like(context.calls, of_input, input(context, 1));
  }
  if (context.needs(2)) {
    gradients[2] = cast_like(context.calls, back.of_root(), input(context, 3));
  }
  return gradients;
}

// Root mean squares, on a rank's rows.

Expression row_mean(const Expression& x, const Argument& normalized) {
  return {x.calls(), x.calls().one("mean.dim", {x, row_dims(normalized), true})};
}

/// An eps of None is the step of the dtype that is computed in.
Results rms_norm_locally(Calls& calls, const OpRow&, const Arguments& args) {
  const Expression x = widened(calls, args[0]);
  const DType dtype = x.value().dtype();
  const double step = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
  const double eps = args[3].is_none() ? step : args[3].to_double();
  const Expression rstd = (row_mean(x * x, args[1]) + eps).of("rsqrt");
  const Expression result = x * rstd;
  if (args[2].is_tensor()) result.changed("aten::mul_.Tensor", widened(calls, args[2]));
  return {result.to(args[0].tensor().dtype()), rstd};
}

Results rms_norm_backward_locally(Calls& calls, const OpRow&, const Arguments& args) {
  const Expression gradient = widened(calls, args[0]), x = widened(calls, args[1]);
  const Expression rstd(calls, args[3].tensor());
  const DType dtype = args[1].tensor().dtype();
  Results results(2);
  if (mask_at(args[5], 0)) {
    const Expression share = args[4].is_tensor() ? gradient * widened(calls, args[4]) : gradient;
    const Expression along = row_mean(share * x, args[2]) * rstd * rstd * rstd;
    results[0] = (share * rstd).minus(x * along).to(dtype);
  }
  if (args[4].is_tensor() && mask_at(args[5], 1)) {
    const DTensor& weight = args[4].tensor();
    results[1] = cast_like(calls, sum_to(calls, gradient * x * rstd, weight), weight);
  }
  return results;
}

Gradients grad_rms_norm(const GradContext& context) {
  Calls& calls = context.calls;
  Gradients gradients(2);
  if (context.grads[0].defined()) {
    gradients = masked_gradients(context, "aten::_fused_rms_norm_backward",
                                 {context.grads[0], context.inputs[0], context.inputs[1],
                                  context.outputs[1], context.inputs[2]},
                                 2);
  }
  if (!context.grads[1].defined() || !context.needs(0)) return gradients;
  // rstd is a power of the mean of squares.
  const Expression x = in(context, 0), rstd(calls, context.outputs[1].tensor());
  double count = 1;
  for (const std::int64_t size : ints_of(context.inputs[1])) count *= static_cast<double>(size);
  const Expression along =
      Expression(calls, context.grads[1]) * rstd * rstd * rstd * (-1 / count) * x;
  const DTensor own = cast_like(calls, along, x);
  gradients[0] = gradients[0].defined() ? calls.one("aten::add.Tensor", {gradients[0], own}) : own;
  return gradients;
}

// Sorted by name.
// clang-format off
constexpr Row kNormRows[] = {
    {"_fused_rms_norm"_op, meta_rms_norm, rule_norm<2>, rms_norm_locally,
     {grad_rms_norm, "input weight result1"}, "rows are independent", kAllowUneven, {1}},
    {"_fused_rms_norm_backward"_op, meta_rms_norm_backward, rule_norm_backward<1>,
     rms_norm_backward_locally, {grad_rms_norm_backward, "grad_out input rstd weight"},
     "rows are independent", 0, {2}},
    {"native_layer_norm"_op, meta_layer_norm, rule_norm<3>, KernelId::kNativeLayerNorm,
     {grad_layer_norm, "input weight bias result1 result2 !result1 !result2"},
     "rows are independent", kAllowUneven, {1}},
    {"native_layer_norm_backward"_op, meta_layer_norm_backward, rule_norm_backward<2>,
     KernelId::kNativeLayerNormBackward,
     {grad_layer_norm_backward, "grad_out input mean rstd weight !mean !rstd"},
     "rows are independent", 0, {2}},
};
// clang-format on

}  // namespace

void register_norm(OpRegistry& registry) { add_rows(registry, kNormRows); }

}  // namespace shardlab
