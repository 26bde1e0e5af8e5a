// Convolutions: the rules let the batch dim be cut, and the last dim where windows do not overlap.
// Beyond that the handler keeps every mesh dim that cuts a spatial dim.
#include <algorithm>
#include <limits>

#include "base/saturating.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask)
enum Position : std::size_t {
  kBiasSizes = 3,
  kStride = 4,
  kPadding = 5,
  kDilation = 6,
  kTransposed = 7,
  kOutputMask = 10,
};

constexpr std::size_t kOutputPadding = 8, kGroups = 9;

// convolution(input, weight, bias, stride, ..): the same numbers, one place earlier.
constexpr std::size_t kBackwardShift = 1;

/// The largest stride, padding or window: their products can be computed.
constexpr std::int64_t kLargestNumber = std::numeric_limits<std::int32_t>::max();

std::int64_t of_dim(const Argument& argument, std::size_t dim) {
  const Dims& values = argument.ints();
  return values[values.size() == 1 ? 0 : dim];
}

/// Common to both directions: the places of input and stride among the arguments.
struct Direction {
  std::size_t input;  ///< among the tensors, weight follows
  std::size_t shift;  ///< of the numbers
};
constexpr Direction kForward = {0, kBackwardShift};
constexpr Direction kBackward = {1, 0};

void check_numbers(const MetaArgs& args, const Direction& direction, std::size_t spatial_dims) {
  struct Rule {
    std::size_t place;
    std::string_view name;
    std::int64_t least;
  };
  constexpr Rule kRules[] = {{kStride, "stride", 1},
                             {kPadding, "padding", 0},
                             {kDilation, "dilation", 1},
                             {kOutputPadding, "output_padding", 0}};
  for (const Rule& rule : kRules) {
    const Dims& values = args[rule.place - direction.shift].ints();
    if (values.size() != 1 && values.size() != spatial_dims) {
      fail(Fix{fmt::format("{}=[{}] holds for all of them", rule.name, rule.least)},
           "{}: {} has {} numbers; it must have one, or one per spatial dim: {}", args.op().base,
           rule.name, values.size(), spatial_dims);
    }
    for (const std::int64_t value : values) {
      if (value >= rule.least && value <= kLargestNumber) continue;
      fail(Fix{fmt::format("leave {} out: its default is {}", rule.name, rule.least)},
           "{}: {} is {}; it must be from {} to {}", args.op().base, rule.name, value, rule.least,
           kLargestNumber);
    }
  }
}

void check_convolution(const MetaArgs& args, const Direction& direction) {
  const Dims& input = args.tensor(direction.input)->shape;
  const Dims& weight = args.tensor(direction.input + 1)->shape;
  const bool transposed = args[kTransposed - direction.shift].to_bool();
  const std::int64_t groups = args[kGroups - direction.shift].to_int();
  if (input.size() != weight.size() || input.size() < 3 || input.size() > 5) {
    fail(Fix{"give both a batch or channel dim and 1 to 3 spatial dims: [N, C, L]"},
         "{}: the input has {} dims, the weight {}; both must have 3 to 5", args.op().base,
         input.size(), weight.size());
  }
  if (groups < 1) {
    fail(Fix{"leave groups out: its default is 1"}, "{}: groups is {}; it must be at least 1",
         args.op().base, groups);
  }
  const std::int64_t channels = transposed ? weight[0] : saturating_product(weight[1], groups);
  if (weight[0] % groups != 0) {
    fail(Fix{fmt::format("pass a divisor of {} as groups", weight[0])},
         "{}: dim 0 of the weight has size {}, which groups={} does not divide", args.op().base,
         weight[0], groups);
  }
  if (input[1] != channels) {
    const std::string wanted = transposed ? fmt::format("[{}, out / groups, ...]", input[1])
                                          : fmt::format("[out, {} / groups, ...]", input[1]);
    fail(Fix{fmt::format("give a weight of shape {}", wanted)},
         "{}: the input has {} channels, the weight is for {} with groups={}", args.op().base,
         input[1], channels, groups);
  }
  for (std::size_t dim = 2; dim < weight.size(); ++dim) {
    if (std::max(weight[dim], transposed ? input[dim] : 0) <= kLargestNumber) continue;
    fail(Fix{fmt::format("split dim {} into smaller pieces", dim)},
         "{}: a window or a row has more than {} elements", args.op().base, kLargestNumber);
  }
  check_numbers(args, direction, input.size() - 2);
}

Dims output_shape(const MetaArgs& args, const Direction& direction) {
  check_convolution(args, direction);
  const Dims& input = args.tensor(direction.input)->shape;
  const Dims& weight = args.tensor(direction.input + 1)->shape;
  const auto at = [&](std::size_t place, std::size_t dim) {
    return of_dim(args[place - direction.shift], dim);
  };
  const bool transposed = args[kTransposed - direction.shift].to_bool();
  const std::int64_t groups = args[kGroups - direction.shift].to_int();
  Dims shape = {input[0], transposed ? saturating_product(weight[1], groups) : weight[0]};
  for (std::size_t i = 0; i + 2 < input.size(); ++i) {
    const std::int64_t reach = at(kDilation, i) * (weight[i + 2] - 1) + 1;
    const std::int64_t room = input[i + 2] + 2 * at(kPadding, i) - reach;
    const std::int64_t size = transposed ? (input[i + 2] - 1) * at(kStride, i) -
                                               2 * at(kPadding, i) + reach + at(kOutputPadding, i)
                                         : room / at(kStride, i) + 1;
    if (transposed && at(kOutputPadding, i) >= std::max(at(kStride, i), at(kDilation, i))) {
      fail(Fix{"use less output_padding, or a larger stride"},
           "{}: output_padding is {}, must be less than the stride {} or the dilation {}",
           args.op().base, at(kOutputPadding, i), at(kStride, i), at(kDilation, i));
    }
    if (transposed && size < 0) {
      fail(Fix{"use less padding, or more output_padding"},
           "{}: the output of spatial dim {} would have size {}", args.op().base, i, size);
    }
    if (!transposed && room < 0) {
      fail(Fix{"use a smaller kernel or dilation, or more padding"},
           "{}: a window reaches over {} elements; the padded input has only {}", args.op().base,
           reach, input[i + 2] + 2 * at(kPadding, i));
    }
    shape.push_back(size);
  }
  return shape;
}

OutputMetas meta_convolution(const MetaArgs& args) {
  const Dims shape = output_shape(args, kForward);
  check_argument_dtype(args, 1, 0);
  check_argument_dtype(args, 2, 0);
  const TensorMeta* bias = args.tensor(2);
  if (bias != nullptr && bias->shape != Dims{shape[1]}) {
    fail(Fix{fmt::format("give a bias of shape [{}]", shape[1])},
         "{}: the bias has shape [{}]; it must have one number per output channel", args.op().base,
         text_of_list(bias->shape, ", "));
  }
  return {{contiguous_meta(shape, args.tensor(0)->dtype)}};
}

Dims bias_shape(const MetaArgs& args) {
  if (args[kBiasSizes].is_ints()) return args[kBiasSizes].ints();
  return Dims{args.tensor(0)->shape[1]};
}

OutputMetas meta_convolution_backward(const MetaArgs& args) {
  const Dims shape = output_shape(args, kBackward);
  check_gradient_shape(args, args.tensor(0)->shape, shape, "the output");
  check_argument_dtype(args, 0, 1);
  check_argument_dtype(args, 2, 1);
  const TensorMeta& input = *args.tensor(1);
  const TensorMeta& weight = *args.tensor(2);
  const ArgumentList& mask = args[kOutputMask].list();
  OutputMetas outputs = {{contiguous_meta(input.shape, input.dtype)},
                         {contiguous_meta(weight.shape, weight.dtype)},
                         {contiguous_meta(bias_shape(args), weight.dtype)}};
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].present = mask[i].to_bool();
  if (outputs[2].present && outputs[2].meta.shape != Dims{shape[1]}) {
    fail(Fix{fmt::format("pass bias_sizes=[{}]", shape[1])},
         "{}: bias_sizes is [{}]; it must be the number of output channels", args.op().base,
         text_of_list(outputs[2].meta.shape, ", "));
  }
  return outputs;
}

/// Windows tile the last dim: a piece cut at a window's edge needs no neighbour.
bool tiles_last_dim(const RuleContext& context, const Direction& direction) {
  const Dims& input = context.tensors[direction.input]->shape();
  const Dims& weight = context.tensors[direction.input + 1]->shape();
  const auto at = [&](std::size_t place) -> const Argument& {
    return context.schema.args[place - direction.shift];
  };
  return input.size() == weight.size() && input.size() >= 3 && input.size() <= 5 &&
         !at(kTransposed).to_bool() && at(kPadding).ints().back() == 0 &&
         at(kDilation).ints().back() == 1 && at(kStride).ints().back() == weight.back();
}

RuleRow cut_forward(const RuleContext& context, const RulePlacement& cut) {
  RuleRow row{{cut}, {cut}};
  row.inputs.resize(context.tensors.size(), placement_of_letter('r'));
  return row;
}

std::vector<RuleRow> convolution_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = {cut_forward(context, RulePlacement::any(0))};
  if (tiles_last_dim(context, kForward)) {
    const auto last = static_cast<std::int64_t>(context.tensors[0]->ndim()) - 1;
    rows.push_back(cut_forward(context, RulePlacement::of(Placement::shard(last))));
  }
  return rows;
}

RuleRow cut_row(const RuleContext& context, const RulePlacement& cut) {
  const RulePlacement sum = placement_of_letter('s');
  const bool has_bias = !context.schema.args[kBiasSizes].is_none();
  return {{cut, sum, has_bias ? sum : RulePlacement::none()}, {cut, cut, placement_of_letter('r')}};
}

std::vector<RuleRow> convolution_backward_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = {cut_row(context, RulePlacement::any(0))};
  if (tiles_last_dim(context, kBackward)) {
    const auto last = static_cast<std::int64_t>(context.tensors[1]->ndim()) - 1;
    rows.push_back(cut_row(context, RulePlacement::of(Placement::shard(last))));
  }
  return rows;
}

/// The last dim is cut by one mesh dim at most, at edges of windows.
template <const Direction& direction>
const char* window_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Dims& shape = context.tensors[direction.input]->shape();
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  std::int64_t pieces = 0;
  for (std::size_t i = 0; i < inputs[direction.input].size(); ++i) {
    if (!inputs[direction.input][i].is_shard(last)) continue;
    if (pieces != 0 || inputs[direction.input][i].is_strided_shard())
      return "the last dim is cut more than once";
    pieces = context.schema.layout->size(i);
  }
  if (pieces == 0) return nullptr;
  const std::int64_t step = context.schema.args[kStride - direction.shift].ints().back() * pieces;
  return shape.back() % step == 0 ? nullptr : "pieces do not end at the edge of a window";
}

/// The arguments of a convolution of any number of dims.
struct Windows {
  Argument stride, padding, dilation, output_padding, groups;
  bool transposed = false;
};

/// One number counts for every dim; a sample alone is a batch of one.
Results convolved(Calls& calls, const Arguments& args, const Windows& windows) {
  const std::size_t dims = args[1].tensor().ndim();
  const std::size_t count = dims > 2 ? dims - 2 : 1;  // fewer are refused by the op itself
  const auto per_dim = [&](const Argument& given) {
    return given.ints().size() == 1 ? Argument(Dims(count, given.ints()[0])) : given;
  };
  const bool alone = args[0].tensor().ndim() + 1 == dims;
  const DTensor batch = alone ? calls.one("aten::unsqueeze", {args[0], 0}) : args[0].tensor();
  const DTensor result = calls.one(
      "aten::convolution", {batch, args[1], args[2], per_dim(windows.stride),
                            per_dim(windows.padding), per_dim(windows.dilation), windows.transposed,
                            per_dim(windows.output_padding), windows.groups});
  return {alone ? calls.one("aten::squeeze.dim", {result, 0}) : result};
}

/// conv1d, conv2d, conv3d(input, weight, bias, stride, padding, dilation, groups).
Results conv_nd(Calls& calls, const Arguments& args) {
  return convolved(calls, args, {args[3], args[4], args[5], Dims{0}, args[6]});
}

/// conv_tbc(self, weight, bias, pad): sequences [time, batch, channels], the weight [width,
/// channels in, channels out]
Results conv_of_times(Calls& calls, const Arguments& args) {
  for (const std::size_t i : {0, 1}) {
    if (args[i].tensor().ndim() == 3) continue;
    fail(Fix{"give sequences [time, batch, channels] and a weight of 3 dims"},
         "conv_tbc: an operand has {} dims; it must have 3", args[i].tensor().ndim());
  }
  const DTensor batch = calls.one("permute", {args[0], Dims{1, 2, 0}});
  const DTensor weight = calls.one("permute", {args[1], Dims{2, 1, 0}});
  const DTensor bias = cast_to(calls, args[2].tensor(), batch.dtype());
  const DTensor result =
      calls.one("convolution",
                {batch, weight, bias, Dims{1}, Dims{args[3].to_int()}, Dims{1}, false, Dims{0}, 1});
  return calls("permute", {result, Dims{2, 0, 1}});
}

/// conv_transpose1d, 2d, 3d(input, weight, bias, stride, padding, output_padding, groups, dilation)
Results conv_transpose(Calls& calls, const Arguments& args) {
  return convolved(calls, args, {args[3], args[4], args[7], args[5], args[6], true});
}

/// conv1d.padding, conv2d.padding, conv3d.padding(input, weight, bias, stride, padding, dilation,
/// groups): "same" keeps the sizes, with the odd element behind.
Results conv_padded(Calls& calls, const Arguments& args) {
  const std::string& word = args[4].string();
  Arguments given = args;
  if (word == "valid") {
    given[4] = Dims{0};
    return conv_nd(calls, given);
  }
  if (word != "same" || std::ranges::any_of(args[3].ints(), [](auto step) { return step != 1; })) {
    fail(Fix{"write \"valid\", or \"same\" with a stride of 1"},
         "padding is \"{}\" with the stride [{}]; it must be \"valid\", or \"same\" with a stride "
         "of 1",
         word, text_of_list(args[3].ints(), ", "));
  }
  const Dims& kernel = args[1].tensor().shape();
  const Dims& dilation = args[5].ints();
  Dims front, odd;
  for (std::size_t d = 2; d < kernel.size(); ++d) {
    const std::int64_t step =
        dilation[dilation.size() == 1 ? 0 : std::min(d - 2, dilation.size() - 1)];
    const std::int64_t whole = saturating_product(step, kernel[d] - 1);
    front.push_back(whole / 2);
    odd.insert(0, whole % 2);
    odd.insert(0, 0);
  }
  if (std::ranges::any_of(odd, [](auto count) { return count != 0; })) {
    given[0] = calls.one("aten::constant_pad_nd", {args[0], odd});
  }
  given[4] = front.empty() ? Dims{0} : front;
  return conv_nd(calls, given);
}

/// _convolution.deprecated(.., groups, benchmark, deterministic, cudnn_enabled)
Results older_convolution(Calls& calls, const Arguments& args) {
  return calls("aten::convolution", Arguments(args.begin(), args.begin() + 9));
}

Gradients grad_convolution(const GradContext& context) {
  if (!context.grads[0].defined()) return Gradients(3);
  const Argument bias_sizes = context.needs(2) ? Argument(input(context, 2).shape()) : Argument();
  Arguments args = {context.grads[0], context.inputs[0], context.inputs[1], bias_sizes};
  args.insert(args.end(), context.inputs.begin() + 3, context.inputs.end());
  return masked_gradients(context, "aten::convolution_backward", std::move(args), 3);
}

/// The three gradients are linear in grad_output, and the first two in weight and in input.
Gradients grad_convolution_backward(const GradContext& context) {
  Calls& calls = context.calls;
  const Arguments& args = context.inputs;
  const DTensor &of_input = context.grads[0], &of_weight = context.grads[1],
                &of_bias = context.grads[2];
  const auto convolved = [&](const Argument& x, const Argument& weight, const Argument& bias) {
    Arguments given{x, weight, bias};
    given.insert(given.end(), args.begin() + kStride, args.begin() + kOutputMask);
    return calls.one("aten::convolution", std::move(given));
  };
  const auto backward = [&](const Argument& x, const Argument& weight, std::size_t which) {
    Arguments given{args[0], x, weight, Argument()};
    given.insert(given.end(), args.begin() + kStride, args.begin() + kOutputMask);
    given.emplace_back(ArgumentList{which == 0, which == 1, false});
    return calls("aten::convolution_backward", std::move(given))[which].tensor();
  };
  Gradients gradients(3);
  const auto add = [&](DTensor term) {
    DTensor& sum = gradients[0];
    sum = sum.defined() ? calls.one("aten::add.Tensor", {sum, term}) : std::move(term);
  };
  if (context.needs(0)) {
    if (of_input.defined()) add(convolved(of_input, args[2], Argument()));
    if (of_weight.defined()) add(convolved(args[1], of_weight, Argument()));
    if (of_bias.defined()) {
      Dims beside(input(context, 0).ndim(), 1);
      beside[1] = of_bias.shape()[0];
      const DTensor bias = calls.one("aten::reshape", {of_bias, beside});
      add(calls.one("aten::expand", {bias, input(context, 0).shape()}));
    }
  }
  if (context.needs(1) && of_weight.defined()) gradients[1] = backward(args[1], of_weight, 0);
  if (context.needs(2) && of_input.defined()) gradients[2] = backward(of_input, args[2], 1);
  return gradients;
}

// Sorted by name.
// clang-format off
constexpr Row kConvolutionRows[] = {
    composite("_convolution.deprecated"_op, older_convolution, "convolution"),
    composite("conv1d"_op, conv_nd, "convolution"),
    composite("conv1d.padding"_op, conv_padded, "convolution"),
    composite("conv2d"_op, conv_nd, "convolution"),
    composite("conv2d.padding"_op, conv_padded, "convolution"),
    composite("conv3d"_op, conv_nd, "convolution"),
    composite("conv3d.padding"_op, conv_padded, "convolution"),
    composite("conv_tbc"_op, conv_of_times, "convolution"),
    composite("conv_transpose1d"_op, conv_transpose, "convolution"),
    composite("conv_transpose2d.input"_op, conv_transpose, "convolution"),
    composite("conv_transpose3d.input"_op, conv_transpose, "convolution"),
    {"convolution"_op, meta_convolution, convolution_rule, {}, {grad_convolution, "input weight"},
     "a mesh dim that cuts a spatial dim stays: the handler fetches halos (X-38)",
     kCollective | kSumsLinearly, {}, window_filter<kForward>},
    {"convolution_backward"_op, meta_convolution_backward, convolution_backward_rule, {},
     {grad_convolution_backward, "grad_output input weight"},
     "gradients of shared weights sum over the batch and over cut spatial dims",
     kCollective | kSumsLinearly, {}, window_filter<kBackward>},
};
// clang-format on

}  // namespace

// dispatch/all_ops.cpp gives both convolutions their handlers.
void register_convolution(OpRegistry& registry) { add_rows(registry, kConvolutionRows); }

}  // namespace shardlab
