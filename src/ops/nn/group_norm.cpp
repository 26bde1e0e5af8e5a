// Normalisation of groups of channels within each sample.
#include <algorithm>

#include "ops/family.h"
#include "ops/nn/normalization.h"

namespace shardlab {
namespace {

using namespace grad;
using namespace normalization;

// Shapes

/// (.., N, C, HxW, group, ..): sizes that the input has.
std::int64_t checked_groups(const MetaArgs& args, const TensorMeta& input) {
  const auto number = [&](std::string_view name) {
    return named(args.op(), args, {name}).to_int();
  };
  const std::int64_t groups = number("group"), channels = input.shape[1];
  if (groups < 1 || channels % groups != 0) {
    fail(Fix{"give a number of groups that divides the number of channels"},
         "{}: there are {} channels and {} groups; groups must be at least 1 and divide the "
         "channels",
         args.op().name(), channels, groups);
  }
  std::int64_t places = 1;
  for (std::size_t d = 2; d < input.shape.size(); ++d) places *= input.shape[d];
  if (number("N") == input.shape[0] && number("C") == channels && number("HxW") == places &&
      places > 0) {
    return groups;
  }
  fail(Fix{"give the sizes of the input, which needs at least one place"},
       "{}: N, C and HxW are {}, {} and {}, the input is [{}]", args.op().name(), number("N"),
       number("C"), number("HxW"), text_of_list(input.shape, ", "));
}

OutputMetas meta_group_norm(const MetaArgs& args) {
  const TensorMeta& input = with_channels(args, 0);
  const DType dtype = checked_vectors(args, input);
  const std::int64_t groups = checked_groups(args, input);
  const TensorMeta statistics = contiguous_meta(Dims{input.shape[0], groups}, dtype);
  return {{normalized_meta(input)}, {statistics}, {statistics}};
}

OutputMetas meta_group_norm_backward(const MetaArgs& args) {
  const TensorMeta& input = with_channels(args, 1);
  require_shape(args, 0, input.shape);
  const std::int64_t groups = checked_groups(args, input);
  check_argument_dtype(args, 0, 1);
  const DType dtype = checked_vectors(args, input);
  for (const std::size_t index : {2, 3}) {
    require_shape(args, index, Dims{input.shape[0], groups});
    require_statistics(args, index, 1, dtype);
  }
  return gradient_metas(args, input, dtype);
}

// Rules

std::vector<RuleRow> rule_group_norm(const RuleContext& context) {
  RuleRow row = uniform_row(whole(), context.outputs.size(), context.tensors.size());
  for (RulePlacement& output : row.outputs) output = any(0);
  row.inputs[0] = any(0);
  return {std::move(row)};
}

/// Gradients of weight and bias add up over the samples.
std::vector<RuleRow> rule_group_norm_backward(const RuleContext& context) {
  RuleRow row = uniform_row(any(0), context.outputs.size(), context.tensors.size());
  for (std::size_t i = 0; i < row.outputs.size(); ++i) {
    if (i > 0) row.outputs[i] = sum();
    if (!context.outputs[i].present) row.outputs[i] = RulePlacement::none();
  }
  for (std::size_t i = 4; i < row.inputs.size(); ++i) row.inputs[i] = whole();
  return {std::move(row)};
}

// Programs

/// The elements of each group in one dim.
Dims grouped_shape(const Normalization& call) {
  const Dims& shape = call.input().shape();
  const std::int64_t groups = call.argument({"group"}).to_int();
  std::int64_t size = shape[1] / groups;
  for (std::size_t d = 2; d < shape.size(); ++d) size *= shape[d];
  return {shape[0], groups, size};
}

/// native_group_norm(input, weight, bias, N, C, HxW, group, eps)
Results group_norm(Calls& calls, const OpRow& row, const Arguments& args) {
  const Normalization call(calls, row.op, args);
  const Dims shape = grouped_shape(call), statistics{shape[0], shape[1]};
  const Expression x = call.reshaped(call.wide(call.input()), shape);
  const Spread spread = spread_of(x, Dims{2});
  const Expression root = (spread.variance + call.number({"eps"})).of("aten::rsqrt");
  const Expression normal = call.reshaped((x - spread.mean) * root, call.input().shape());
  return {call.stored(call.scaled(normal), call.input().dtype()),
          call.stored(call.reshaped(spread.mean, statistics), call.vector_dtype()),
          call.stored(call.reshaped(root, statistics), call.vector_dtype())};
}

/// native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
Results group_norm_backward(Calls& calls, const OpRow& row, const Arguments& args) {
  const Normalization call(calls, row.op, args);
  const Dims shape = grouped_shape(call), number{shape[0], shape[1], 1}, last{2};
  const Expression g = call.wide({"grad_out"});
  const Expression mean = call.reshaped(call.wide({"mean"}), number);
  const Expression root = call.reshaped(call.wide({"rstd"}), number);
  const Expression normal = (call.reshaped(call.wide(call.input()), shape) - mean) * root;
  return asked_for(call.argument({"output_mask"}), [&](std::size_t i) {
    if (i == 1) {
      const Expression along = g * call.reshaped(normal, call.input().shape());
      return call.flat(call.sum(along, call.other_dims()));
    }
    if (i == 2) return call.flat(call.sum(g, call.other_dims()));
    const Expression inner =
        call.reshaped(call.has({"weight"}) ? g * call.beside({"weight"}) : g, shape);
    const auto size = static_cast<double>(shape[2]);
    const Expression slope = (inner - call.sum(inner, last) / size)
                                 .minus(normal * (call.sum(inner * normal, last) / size));
    return call.stored(call.reshaped(slope * root, call.input().shape()), call.input().dtype());
  });
}

// Gradients

/// All but that of the samples.
Dims inner_dims(const DTensor& x) {
  Dims dims;
  for (std::size_t d = 1; d < x.ndim(); ++d) dims.push_back(static_cast<std::int64_t>(d));
  return dims;
}

/// Gradients of means and of 1 / standard deviations, as gradient of the input.
DTensor through_statistics(const GradContext& context) {
  Calls& calls = context.calls;
  const Dims inner = inner_dims(input(context, 0));
  const DTensor x = gathered(calls, input(context, 0), inner);
  const Dims& groups = context.outputs[1].tensor().shape();
  const std::int64_t size = x.numel() / std::max<std::int64_t>(product(groups), 1);
  const auto shaped = [&](const DTensor& value, const Dims& shape) {
    return Expression(calls, calls.one("aten::reshape", {gathered(calls, value, inner), shape}));
  };
  const Dims number{groups[0], groups[1], 1}, whole{groups[0], groups[1], size};
  Expression sum = shaped(zeros_like(calls, x), whole);
  if (context.grads[1].defined()) {
    sum = sum + shaped(context.grads[1], number) / static_cast<double>(size);
  }
  if (context.grads[2].defined()) {
    const Expression root = shaped(context.outputs[2].tensor(), number);
    const Expression normal =
        shaped(x, whole).minus(shaped(context.outputs[1].tensor(), number)) * root;
    sum = sum - shaped(context.grads[2], number) * root * root * normal / static_cast<double>(size);
  }
  return cast_like(calls, shaped(sum, x.shape()), x);
}

Gradients grad_group_norm(const GradContext& context) {
  Gradients gradients(3);
  const Arguments& args = context.inputs;
  if (context.grads[0].defined()) {
    gradients = masked_gradients(context, "aten::native_group_norm_backward",
                                 {context.grads[0], args[0], context.outputs[1], context.outputs[2],
                                  args[1], args[3], args[4], args[5], args[6]},
                                 3);
  }
  if (!context.needs(0) || (!context.grads[1].defined() && !context.grads[2].defined())) {
    return gradients;
  }
  const DTensor more = through_statistics(context);
  gradients[0] =
      gradients[0].defined() ? context.calls.one("aten::add.Tensor", {gradients[0], more}) : more;
  return gradients;
}

/// native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
Gradients grad_group_norm_backward(const GradContext& context) {
  Calls& calls = context.calls;
  const OpDescriptor& op = calls.find("aten::native_group_norm_backward").op;
  const Dims inner = inner_dims(input(context, 1));
  // Channels of a group are next to each other.
  Arguments args = context.inputs;
  for (const std::size_t i : {0, 1, 2, 3}) {
    args[i] = gathered(calls, reduced(calls, args[i].tensor()), inner);
  }
  const Normalization call(calls, op, args);
  const Dims &whole = call.input().shape(), groups = grouped_shape(call),
             number{groups[0], groups[1], 1};
  const auto vector = [&](const DTensor& x) {
    Dims shape(call.input().ndim(), 1);
    shape[1] = whole[1];
    return call.reshaped(call.wide(gathered(calls, reduced(calls, x), Dims{0})), shape);
  };
  const bool weighed = args[4].is_tensor();
  const Expression g = call.wide({"grad_out"}), none(calls, zeros_like(calls, g));
  const Expression root = call.reshaped(call.wide({"rstd"}), number);
  const Expression x = call.reshaped(call.wide(call.input()), groups);
  const DTensor &of_input = context.grads[0], &of_weight = context.grads[1],
                &of_bias = context.grads[2];
  const auto given = [&](const DTensor& flowed) {
    return call.wide(gathered(calls, reduced(calls, flowed), inner));
  };
  const WayBack back{call.reshaped(weighed ? g * vector(args[4].tensor()) : g, groups),
                     (x - call.reshaped(call.wide({"mean"}), number)) * root,
                     root,
                     call.reshaped(of_input.defined() ? given(of_input) : none, groups),
                     call.reshaped(of_weight.defined() ? g * vector(of_weight) : none, groups),
                     Dims{2},
                     TakesOut::kMeanAndSlope};
  Gradients gradients(5);
  const Expression of_flow = call.reshaped(back.of_flow(), whole);
  if (context.needs(0)) {
    Expression of_g = weighed ? of_flow * vector(args[4].tensor()) : of_flow;
    if (of_weight.defined())
      of_g = of_g + call.reshaped(back.normal, whole).times(vector(of_weight));
    if (of_bias.defined()) of_g = of_g + vector(of_bias);
    gradients[0] = cast_like(calls, of_g, input(context, 0));
  }
  const Expression of_input_alone = back.of_normal() * root;
  if (context.needs(1)) {
    gradients[1] = cast_like(calls, call.reshaped(of_input_alone, whole), input(context, 1));
  }
  const auto per_group = [&](const Expression& sums, std::size_t index) {
    const DTensor& like = input(context, index);
    return cast_like(calls, call.reshaped(sums, like.shape()), like);
  };
  if (context.needs(2)) gradients[2] = per_group(-call.sum(of_input_alone, Dims{2}), 2);
  if (context.needs(3)) gradients[3] = per_group(back.of_root(), 3);
  if (weighed && context.needs(4)) {
    gradients[4] = call.flat(call.sum(of_flow * g, call.other_dims())).tensor();
  }
  return gradients;
}

/// group_norm(input, num_groups, weight, bias, eps, _)
Results group_norm_parts(Calls& calls, const Arguments& args) {
  const Dims& shape = args[0].tensor().shape();
  if (shape.size() < 2) {
    fail(Fix{"give [samples, channels, ..]"},
         "group_norm: the input has {} dims, must have at least 2", shape.size());
  }
  const std::int64_t places = product(Dims(shape.begin() + 2, shape.end()));
  return {calls("aten::native_group_norm",
                {args[0], args[2], args[3], shape[0], shape[1], places, args[1], args[4]})[0]};
}

constexpr const char* kSamples = "each sample by itself";

// Sorted by name.
// clang-format off
constexpr Row kGroupNormRows[] = {
    composite("group_norm"_op, group_norm_parts, "native_group_norm"),
    {"native_group_norm"_op, meta_group_norm, rule_group_norm, group_norm,
     {grad_group_norm, "input weight result1 result2"}, kSamples, 0, {1}, nullptr, 3},
    {"native_group_norm_backward"_op, meta_group_norm_backward, rule_group_norm_backward,
     group_norm_backward, {grad_group_norm_backward, "grad_out input mean rstd weight"}, kSamples,
     0, {1}},
};
// clang-format on

}  // namespace

void register_group_norm(OpRegistry& registry) { add_rows(registry, kGroupNormRows); }

}  // namespace shardlab
