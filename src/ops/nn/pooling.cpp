// Pooling of the last dims: samples and channels, which are the dims in front, may be cut. Means
// are linear, so that pending sums and averages pass; maxima return their places, which receive
// their gradient.
#include <algorithm>
#include <limits>
#include <span>

#include "ops/family.h"
#include "ops/nn/resample.h"

namespace shardlab {
namespace {

using namespace grad;

// Shapes

/// A window over nothing has no largest element, and no mean.
void require_elements(const MetaArgs& args, const TensorMeta& self) {
  const auto count = static_cast<std::ptrdiff_t>(spatial_dims(args.op()));
  const bool empty = std::any_of(self.shape.end() - count, self.shape.end(),
                                 [](std::int64_t size) { return size == 0; });
  if (!empty) return;
  fail(Fix{"give at least one element along each dim that is pooled"},
       "{}: the input has shape [{}], and none of the last {} sizes may be 0", args.op().name(),
       text_of_list(self.shape, ", "), count);
}

/// The sizes of a list that may hold one number for all dims, or none where there is a fallback.
Dims per_dim(const Argument& argument, std::size_t count, const Dims& fallback) {
  Dims sizes = ints_of(argument);
  if (sizes.empty() && !fallback.empty()) return fallback;
  if (sizes.size() == 1) sizes = Dims(count, sizes[0]);
  if (sizes.size() == count) return sizes;
  fail(Fix{fmt::format("give one number, or {}", count)},
       "a pool of {} dims is given {} numbers, [{}]; it must be given one, or one per dim", count,
       sizes.size(), text_of_list(sizes, ", "));
}

struct Pooling {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode;
};

Dims pooled_sizes(const MetaArgs& args, const TensorMeta& self, const Pooling& pooling) {
  const std::size_t count = pooling.kernel.size();
  Dims sizes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t size = self.shape[self.shape.size() - count + i];
    // The reference has the same limit; products of two of them fit.
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    const std::int64_t largest =
        std::max({pooling.kernel[i], pooling.stride[i], pooling.dilation[i]});
    if (largest > kMost) {
      fail(Fix{"give numbers below 2147483648"},
           "{}: a size, a stride or a dilation of windows is {}; it must be below 2147483648",
           args.op().name(), largest);
    }
    if (pooling.stride[i] <= 0 || pooling.kernel[i] <= 0 ||
        pooling.padding[i] > pooling.kernel[i] / 2) {
      fail(Fix{"give strides above 0 and a padding of at most half the window"},
           "{}: windows have size {}, stride {} and padding {}; size and stride must be above 0, "
           "padding at most half the size",
           args.op().name(), pooling.kernel[i], pooling.stride[i], pooling.padding[i]);
    }
    if (pooling.padding[i] < 0 || pooling.dilation[i] <= 0) {
      fail(Fix{"give dilations above 0, and no negative padding"},
           "{}: windows have padding {} and dilation {}; they must be at least 0 and at least 1",
           args.op().name(), pooling.padding[i], pooling.dilation[i]);
    }
    const std::int64_t room =
        size + 2 * pooling.padding[i] - pooling.dilation[i] * (pooling.kernel[i] - 1) - 1;
    const std::int64_t steps = room + (pooling.ceil_mode ? pooling.stride[i] - 1 : 0);
    std::int64_t result = steps < 0 ? 0 : steps / pooling.stride[i] + 1;
    // A window starts inside of the input or in the padding before it.
    const bool beyond = (result - 1) * pooling.stride[i] >= size + pooling.padding[i];
    if (pooling.ceil_mode && beyond) --result;
    if (result < 1) {
      fail(Fix{"give a window that fits the input and its padding"},
           "{}: a window of {} does not fit into {} places", args.op().name(), pooling.kernel[i],
           size + 2 * pooling.padding[i]);
    }
    sizes.push_back(result);
  }
  return sizes;
}

/// (.., kernel_size, stride, padding, ceil_mode, ..), the first of these at `at`.
Pooling mean_pooling(const MetaArgs& args, std::size_t at) {
  const std::size_t count = spatial_dims(args.op());
  const Dims kernel = per_dim(args[at], count, {});
  return {kernel, per_dim(args[at + 1], count, kernel),
          per_dim(args[at + 2], count, Dims(count, 0)), Dims(count, 1), args[at + 3].to_bool()};
}

OutputMetas meta_avg_pool(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  require_dims(args, self, spatial_dims(args.op()) + 1);
  const Argument& divisor = argument_or_none(args, "divisor_override");
  if (divisor.is_scalar() && divisor.to_int() == 0) {
    fail(Fix{"leave divisor_override out, or give another number"},
         "{}: divisor_override is 0; it must be another number", args.op().name());
  }
  return {{resized(self, pooled_sizes(args, self, mean_pooling(args, 1)))}};
}

OutputMetas with_indices(OutputMetas values) {
  values.push_back(values[0]);
  values[1].meta.dtype = DType::kI64;
  return values;
}

OutputMetas meta_max_pool(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const std::size_t count = spatial_dims(args.op());
  require_dims(args, self, count + 1);
  require_elements(args, self);
  const Dims kernel = per_dim(args[1], count, {});
  const Pooling pooling{kernel, per_dim(args[2], count, kernel),
                        per_dim(args[3], count, Dims(count, 0)),
                        per_dim(args[4], count, Dims(count, 1)), args[5].to_bool()};
  return with_indices({{resized(self, pooled_sizes(args, self, pooling))}});
}

/// fractional_max_pool..(self, kernel_size, output_size, random_samples): a number from [0, 1) for
/// each pooled dim of each plane.
OutputMetas meta_fractional_pool(const MetaArgs& args) {
  const TensorMeta &self = *args.tensor(0), &numbers = *args.tensor(3);
  const std::size_t count = spatial_dims(args.op()), ndim = self.shape.size();
  require_dims(args, self, count + 1);
  const Dims kernel = ints_of(args[1]), sizes = ints_of(args[2]);
  bool fits = kernel.size() == count && sizes.size() == count;
  for (std::size_t i = 0; fits && i < count; ++i) {
    fits =
        kernel[i] > 0 && sizes[i] > 0 && sizes[i] + kernel[i] - 1 <= self.shape[ndim - count + i];
  }
  const bool batched = ndim == count + 2;
  const Dims planes{batched ? self.shape[0] : 1, self.shape[ndim - count - 1],
                    static_cast<std::int64_t>(count)};
  if (!fits || numbers.shape != planes || numbers.dtype != self.dtype) {
    fail(Fix{fmt::format("give windows and output sizes that fit, and random_samples [{}] of {}",
                         text_of_list(planes, ", "), to_string(self.dtype))},
         "{}: {} windows of {} with random_samples [{}] do not fit an input [{}]", args.op().name(),
         args[2].text(), args[1].text(), text_of_list(numbers.shape, ", "),
         text_of_list(self.shape, ", "));
  }
  return with_indices({{resized(self, sizes)}});
}

OutputMetas meta_adaptive_pool(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const std::size_t count = spatial_dims(args.op());
  require_dims(args, self, count + 1);
  require_elements(args, self);
  const Dims sizes = per_dim(args[1], count, {});
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; })) {
    fail(Fix{"give sizes of at least 0"}, "{}: output_size is [{}]; no size may be negative",
         args.op().name(), text_of_list(sizes, ", "));
  }
  return {{resized(self, sizes)}};
}

OutputMetas meta_adaptive_max_pool(const MetaArgs& args) {
  return with_indices(meta_adaptive_pool(args));
}

/// (grad_output, self, ..): as self.
OutputMetas meta_pool_backward(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(1);
  meta.stride = preserved_strides(meta);
  require_dims(args, meta, spatial_dims(args.op()) + 1);
  const Dims& gradient = args.tensor(0)->shape;
  Dims sizes = meta.shape;  // samples and channels are the input's
  if (gradient.size() == sizes.size()) {
    const auto resampled = static_cast<std::ptrdiff_t>(spatial_dims(args.op()));
    std::copy(gradient.end() - resampled, gradient.end(), sizes.end() - resampled);
  }
  require_gradient(args, *args.tensor(0), sizes);
  check_argument_dtype(args, 0, 1);
  const auto& arguments = args.op().arguments;
  const auto places = std::ranges::find(arguments, "indices", &SchemaArgument::name);
  if (places != arguments.end()) {
    check_argument_shape(args, static_cast<std::size_t>(places - arguments.begin()), gradient);
  }
  return {{meta}};
}

/// avg_pool.._backward(grad_output, self, kernel_size, stride, padding, ceil_mode, ..)
OutputMetas meta_avg_pool_backward(const MetaArgs& args) {
  require_dims(args, *args.tensor(1), spatial_dims(args.op()) + 1);
  const Pooling pooling = mean_pooling(args, 2);
  require_gradient(args, *args.tensor(0), pooled_sizes(args, *args.tensor(1), pooling));
  return meta_pool_backward(args);
}

/// max_unpool..(self, indices, output_size), and of three dims stride and padding
OutputMetas meta_unpool(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Dims sizes = ints_of(args[2]);
  require_dims(args, self, spatial_dims(args.op()) + 1);
  const Argument& stride = argument_or_none(args, "stride");
  const Dims steps = stride.is_none() ? Dims{} : ints_of(stride);
  if (std::ranges::any_of(steps, [](std::int64_t step) { return step <= 0; })) {
    fail(Fix{"give the strides of the pool, above 0"},
         "{}: the strides are [{}]; they must be above 0", args.op().name(),
         text_of_list(steps, ", "));
  }
  if (!(args.tensor(1)->shape == self.shape) || sizes.size() != spatial_dims(args.op())) {
    fail(Fix{"give the indices that came with the values, and output_size"},
         "{}: the values have {} dims, output_size {} sizes; the indices need the values' shape",
         args.op().name(), self.shape.size(), sizes.size());
  }
  return {{resized(self, sizes)}};
}

// Rules

std::size_t outputs_of(const RuleContext& context) { return context.schema.row->op.returns.size(); }

bool has_samples(const RuleContext& context) {
  return context.tensors[0]->ndim() >= spatial_dims(context.schema.row->op) + 2;
}

/// Samples, and channels where samples are in front of them; `passing` between both.
std::vector<RuleRow> pool_rows(const RuleContext& context, const char* passing) {
  const std::size_t outputs = outputs_of(context), inputs = context.tensors.size();
  std::vector<RuleRow> rows{uniform_row(any(0), outputs, inputs)};
  append_passing(rows, passing, outputs, inputs);
  if (has_samples(context)) rows.push_back(uniform_row(any(1), outputs, inputs));
  return rows;
}
std::vector<RuleRow> mean_pool_rule(const RuleContext& context) { return pool_rows(context, "sa"); }
std::vector<RuleRow> max_pool_rule(const RuleContext& context) { return pool_rows(context, ""); }

/// Linear in the gradient, the first operand.
std::vector<RuleRow> pool_backward_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = pool_rows(context, "");
  append_passing(rows, "sa", 1, 1, context.tensors.size() - 1);
  return rows;
}

// Places

/// The last `count` dims as one, whole on every rank: places count within all of them.
DTensor joined(Calls& calls, const DTensor& given, std::size_t count) {
  const std::size_t front = given.ndim() - count;
  Dims last;
  for (std::size_t d = front; d < given.ndim(); ++d) last.push_back(static_cast<std::int64_t>(d));
  const DTensor x = gathered(calls, given, last);
  Dims shape(x.shape().begin(), x.shape().begin() + static_cast<std::ptrdiff_t>(front));
  shape.push_back(product(std::span(x.shape()).subspan(front)));
  return calls.one("aten::reshape", {x, shape});
}

Dims last_of(const DTensor& x) { return {static_cast<std::int64_t>(x.ndim()) - 1}; }

/// Values at their places among the last dims of `like`, added up; 0 elsewhere.
DTensor placed(Calls& calls, const DTensor& values, const DTensor& indices, const DTensor& like,
               std::size_t count) {
  const DTensor flat = joined(calls, calls.one("aten::zeros_like", {like}), count);
  const DTensor sums = calls.one(
      "aten::scatter_add", {flat, -1, joined(calls, indices, count), joined(calls, values, count)});
  return calls.one("aten::reshape", {gathered(calls, sums, last_of(sums)), like.shape()});
}

/// The elements at places among the last dims.
DTensor taken(Calls& calls, const DTensor& from, const DTensor& indices, std::size_t count) {
  const DTensor flat =
      calls.one("aten::gather", {joined(calls, from, count), -1, joined(calls, indices, count)});
  return calls.one("aten::reshape", {gathered(calls, flat, last_of(flat)), indices.shape()});
}

/// max_pool.._with_indices_backward(grad_output, self, .., indices), adaptive_max_pool.._backward,
/// fractional_max_pool.._backward
Results max_pool_backward(Calls& calls, const OpRow& row, const Arguments& args) {
  const OpRow& base = row.base != nullptr ? *row.base : row;
  const std::size_t last = base.op.arguments.size() - 1;
  return {placed(calls, args[0].tensor(), args[last].tensor(), args[1].tensor(),
                 spatial_dims(base.op))};
}

Results unpool(Calls& calls, const OpRow& row, const Arguments& args) {
  const std::size_t count = spatial_dims(row.op);
  const DTensor &self = args[0].tensor(), &indices = args[1].tensor();
  Dims shape(self.shape().begin(), self.shape().end() - static_cast<std::ptrdiff_t>(count));
  for (const std::int64_t size : ints_of(args[2])) shape.push_back(size);
  const DTensor flat = joined(calls, calls.one("aten::new_zeros", {self, shape}), count);
  const DTensor filled = calls.one(
      "aten::scatter.src", {flat, -1, joined(calls, indices, count), joined(calls, self, count)});
  return {calls.one("aten::reshape", {filled, shape})};
}

// Gradients

/// avg_pool..(self, ..), adaptive_avg_pool..(self, output_size): the way back takes self behind the
/// gradient, and no output_size.
template <FixedText backward>
Gradients grad_avg_pool(const GradContext& context) {
  Arguments args = context.inputs;
  args.insert(args.begin(), Argument(context.grads[0]));
  args[1] = input(context, 0);
  // An empty stride is the window's size; the way back has no defaults.
  if (args[3].is_none() || (args[3].is_ints() && args[3].ints().empty())) args[3] = args[2];
  return {context.calls.one(backward, std::move(args))};
}
/// (grad_output, self, ..): backward is linear, its gradient is the forward op.
template <FixedText forward>
Gradients grad_avg_pool_backward(const GradContext& context) {
  Arguments args(context.inputs.begin() + 1, context.inputs.end());
  args[0] = context.grads[0];
  return {context.calls.one(forward, std::move(args))};
}
/// avg_pool1d: of a plane of one row.
Gradients grad_avg_pool1d(const GradContext& context) {
  Calls& calls = context.calls;
  const auto in_row = [&](const DTensor& x) { return calls.one("aten::unsqueeze", {x, -2}); };
  const auto beside = [&](std::size_t index, std::int64_t one, std::int64_t fallback) {
    const Dims given = ints_of(context.inputs[index]);
    return Dims{one, given.empty() ? fallback : given[0]};
  };
  const std::int64_t kernel = ints_of(context.inputs[1])[0];
  const DTensor back = calls.one(
      "aten::avg_pool2d_backward",
      {in_row(context.grads[0]), in_row(input(context, 0)), Dims{1, kernel}, beside(2, 1, kernel),
       beside(3, 0, 0), context.inputs[4], context.inputs[5], Argument()});
  return {calls.one("aten::squeeze.dim", {back, -2})};
}
/// (grad_output, self): backward is linear, its gradient is the forward op.
template <FixedText forward, std::size_t count>
Gradients grad_adaptive_backward(const GradContext& context) {
  const Dims& shape = input(context, 0).shape();
  const Dims sizes(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end());
  return {context.calls.one(forward, {context.grads[0], sizes})};
}
/// adaptive_avg_pool1d: of a plane of one row.
Gradients grad_adaptive_avg_pool1d(const GradContext& context) {
  Calls& calls = context.calls;
  const auto in_row = [&](const DTensor& x) { return calls.one("aten::unsqueeze", {x, -2}); };
  const DTensor back = calls.one("aten::_adaptive_avg_pool2d_backward",
                                 {in_row(context.grads[0]), in_row(input(context, 0))});
  return {calls.one("aten::squeeze.dim", {back, -2})};
}

template <std::size_t count>
Gradients grad_max_pool(const GradContext& context) {
  return {placed(context.calls, context.grads[0], context.outputs[1].tensor(), input(context, 0),
                 count)};
}

template <std::size_t count>
Gradients grad_unpool(const GradContext& context) {
  return {taken(context.calls, context.grads[0], input(context, 1), count)};
}

/// The gradient of a backward (grad_output, self, .., indices): the elements at the indices.
template <std::size_t count, std::size_t indices>
Gradients grad_max_pool_backward(const GradContext& context) {
  return {taken(context.calls, context.grads[0], input(context, indices), count)};
}

constexpr const char* kWindows = "samples and channels go by themselves";

// Sorted by name.
// clang-format off
constexpr Row kPoolRows[] = {
    {"_adaptive_avg_pool2d"_op, meta_adaptive_pool, mean_pool_rule, KernelId::kAdaptiveAvgPool,
     {grad_by<"_adaptive_avg_pool2d_backward", 0>, "self"}, kLinearMap, kAllowUneven},
    {"_adaptive_avg_pool2d_backward"_op, meta_pool_backward, max_pool_rule,
     KernelId::kAdaptiveAvgPoolBackward, {grad_adaptive_backward<"_adaptive_avg_pool2d", 2>, ""},
     kWindows},
    {"_adaptive_avg_pool3d"_op, meta_adaptive_pool, mean_pool_rule, KernelId::kAdaptiveAvgPool,
     {grad_by<"_adaptive_avg_pool3d_backward", 0>, "self"}, kLinearMap, kAllowUneven},
    {"_adaptive_avg_pool3d_backward"_op, meta_pool_backward, pool_backward_rule,
     KernelId::kAdaptiveAvgPoolBackward, {grad_adaptive_backward<"_adaptive_avg_pool3d", 3>, ""},
     kWindows, kAllowUneven},
    {"adaptive_avg_pool1d"_op, meta_adaptive_pool, mean_pool_rule, KernelId::kAdaptiveAvgPool,
     {grad_adaptive_avg_pool1d, "self"}, kLinearMap, kAllowUneven},
    {"adaptive_max_pool1d"_op, meta_adaptive_max_pool, max_pool_rule, KernelId::kAdaptiveMaxPool,
     {grad_max_pool<1>, "result1"}, kWindows, kAllowUneven},
    {"adaptive_max_pool2d"_op, meta_adaptive_max_pool, max_pool_rule, KernelId::kAdaptiveMaxPool,
     {grad_max_pool<2>, "self result1"}, kWindows, kAllowUneven},
    {"adaptive_max_pool2d_backward"_op, meta_pool_backward, pool_backward_rule, max_pool_backward,
     {grad_max_pool_backward<2, 2>, "indices"}, kWindows, kAllowUneven},
    {"adaptive_max_pool3d"_op, meta_adaptive_max_pool, max_pool_rule, KernelId::kAdaptiveMaxPool,
     {grad_max_pool<3>, "self result1"}, kWindows, kAllowUneven},
    {"adaptive_max_pool3d_backward"_op, meta_pool_backward, pool_backward_rule, max_pool_backward,
     {grad_max_pool_backward<3, 2>, "indices"}, kWindows, kAllowUneven},
    {"avg_pool1d"_op, meta_avg_pool, mean_pool_rule, KernelId::kAvgPool, {grad_avg_pool1d, "self"},
     kLinearMap, kAllowUneven},
    {"avg_pool2d"_op, meta_avg_pool, mean_pool_rule, KernelId::kAvgPool,
     {grad_avg_pool<"avg_pool2d_backward">, "self"}, kLinearMap, kAllowUneven},
    {"avg_pool2d_backward"_op, meta_avg_pool_backward, pool_backward_rule,
     KernelId::kAvgPoolBackward, {grad_avg_pool_backward<"avg_pool2d">, ""}, kWindows,
     kAllowUneven},
    {"avg_pool3d"_op, meta_avg_pool, mean_pool_rule, KernelId::kAvgPool,
     {grad_avg_pool<"avg_pool3d_backward">, "self"}, kLinearMap, kAllowUneven},
    {"avg_pool3d_backward"_op, meta_avg_pool_backward, pool_backward_rule,
     KernelId::kAvgPoolBackward, {grad_avg_pool_backward<"avg_pool3d">, ""}, kWindows,
     kAllowUneven},
    {"fractional_max_pool2d"_op, meta_fractional_pool, max_pool_rule, KernelId::kFractionalMaxPool,
     {grad_max_pool<2>, "self result1"}, kWindows, kAllowUneven},
    {"fractional_max_pool2d_backward"_op, meta_pool_backward, pool_backward_rule, max_pool_backward,
     {grad_max_pool_backward<2, 4>, "indices"}, kWindows, kAllowUneven},
    {"fractional_max_pool3d"_op, meta_fractional_pool, max_pool_rule, KernelId::kFractionalMaxPool,
     {grad_max_pool<3>, "self result1"}, kWindows, kAllowUneven},
    {"fractional_max_pool3d_backward"_op, meta_pool_backward, pool_backward_rule, max_pool_backward,
     {grad_max_pool_backward<3, 4>, "indices"}, kWindows, kAllowUneven},
    {"max_pool1d_with_indices"_op, meta_max_pool, max_pool_rule, KernelId::kMaxPool,
     {grad_max_pool<1>, "result1"}, kWindows, kAllowUneven},
    {"max_pool2d_with_indices"_op, meta_max_pool, max_pool_rule, KernelId::kMaxPool,
     {grad_max_pool<2>, "self result1"}, kWindows, kAllowUneven},
    {"max_pool2d_with_indices_backward"_op, meta_pool_backward, pool_backward_rule,
     max_pool_backward, {grad_max_pool_backward<2, 7>, "indices"}, kWindows},
    {"max_pool3d_with_indices"_op, meta_max_pool, max_pool_rule, KernelId::kMaxPool,
     {grad_max_pool<3>, "self result1"}, kWindows, kAllowUneven},
    {"max_pool3d_with_indices_backward"_op, meta_pool_backward, pool_backward_rule,
     max_pool_backward, {grad_max_pool_backward<3, 7>, "indices"}, kWindows, kAllowUneven},
    {"max_unpool2d"_op, meta_unpool, max_pool_rule, unpool, {grad_unpool<2>, "indices"}, kWindows},
    {"max_unpool3d"_op, meta_unpool, max_pool_rule, unpool, {grad_unpool<3>, "indices"}, kWindows},
};
// clang-format on

}  // namespace

void register_pooling(OpRegistry& registry) { add_rows(registry, kPoolRows); }

}  // namespace shardlab
