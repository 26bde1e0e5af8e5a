// Functions of torch.nn.functional that pool: windows, whose largest element may be returned with
// its place, the way back from there, and bags of rows of a table.
#include "ops/family.h"
#include "ops/torch/functional.h"

namespace shardlab {
namespace {

/// The values, and the places where they are requested.
Results values_and_places(Results both, const Argument& with_places) {
  if (!with_places.to_bool()) both.pop_back();
  return both;
}

/// max_pool1d, 2d, 3d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
template <FixedText op>
Results max_pool(Calls& calls, const Arguments& args) {
  const Argument stride = args[2].is_none() ? Argument(Dims{}) : args[2];
  return values_and_places(calls(op, {args[0], args[1], stride, args[3], args[4], args[5]}),
                           args[6]);
}

/// adaptive_max_pool1d, 2d, 3d(input, output_size, return_indices)
template <FixedText op, std::size_t dims>
Results adaptive_max_pool(Calls& calls, const Arguments& args) {
  const Dims sizes = pooled_sizes_of(args[1], args[0].tensor(), dims);
  return values_and_places(calls(op, {args[0], sizes}), args[2]);
}

/// fractional_max_pool2d, 3d(input, kernel_size, output_size, output_ratio, return_indices,
/// _random_samples)
template <FixedText op, std::size_t dims>
Results fractional_max_pool(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() <= dims) {
    fail(Fix{"give a tensor [batch, channels, ..]"}, "{} takes a tensor of {} or {} dims, not {}",
         op, dims + 1, dims + 2, x.ndim());
  }
  if (args[2].is_none() && args[3].is_none()) {
    fail(Fix{"give output_size or output_ratio"},
         "{}: neither output_size nor output_ratio is given; one must be", op);
  }
  Dims sizes = ints_of(args[2]);
  for (std::size_t d = 0; args[2].is_none() && d < dims; ++d) {
    const bool one = args[3].is_scalar();
    const double ratio = one ? args[3].to_double() : args[3].list().at(d).to_double();
    const auto length = static_cast<double>(x.shape()[x.ndim() - dims + d]);
    sizes.push_back(static_cast<std::int64_t>(length * ratio));
  }
  DTensor samples = args[5].is_tensor() ? args[5].tensor() : DTensor();
  if (!samples.defined()) {
    const std::int64_t batch = x.ndim() == dims + 1 ? 1 : x.shape()[0];
    const Dims shape{batch, x.shape()[x.ndim() - dims - 1], static_cast<std::int64_t>(dims)};
    samples = calls.one("rand_like", {calls.one("new_empty", {x, shape})});
  }
  return values_and_places(calls(op, {x, args[1], sizes, samples}), args[4]);
}

// max_unpool1d, 2d, 3d(input, indices, kernel_size, stride, padding, output_size)

/// The size from which a pool with these windows would give this result, or one near to it.
Dims unpooled_sizes(const DTensor& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                    const Argument& wanted) {
  const std::size_t dims = kernel.size(), front = x.ndim() - dims;
  Dims sizes, given = ints_of(wanted);
  for (std::size_t d = 0; d < dims; ++d) {
    sizes.push_back((x.shape()[front + d] - 1) * stride[d] + kernel[d] - 2 * padding[d]);
  }
  if (wanted.is_none()) return sizes;
  if (given.size() == dims + 2) given = Dims(given.begin() + 2, given.end());
  bool fits = given.size() == dims;
  for (std::size_t d = 0; fits && d < dims; ++d) {
    fits = given[d] > sizes[d] - stride[d] && given[d] < sizes[d] + stride[d];
  }
  if (fits) return given;
  fail(Fix{fmt::format("give sizes less than a stride away from [{}]", text_of_list(sizes, ", "))},
       "max_unpool: output_size is {}; each size must be less than a stride away from the default",
       wanted.text());
}

template <std::size_t dims>
Results max_unpool(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() <= dims) {
    fail(Fix{"give what a pool gave"}, "max_unpool{}d takes a tensor of {} or {} dims, not {}",
         dims, dims + 1, dims + 2, x.ndim());
  }
  const Dims kernel = ints_of(args[2]), padding = ints_of(args[4]);
  const Dims stride = args[3].is_none() ? kernel : ints_of(args[3]);
  Dims sizes = unpooled_sizes(x, kernel, stride, padding, args[5]);
  if constexpr (dims == 3) {
    return {calls.one("max_unpool3d", {x, args[1], sizes, stride, padding})};
  }
  if constexpr (dims == 2) return {calls.one("max_unpool2d", {x, args[1], sizes})};
  sizes.push_back(1);
  const DTensor plane = calls.one("unsqueeze", {x, -1});
  const DTensor places = calls.one("unsqueeze", {args[1], -1});
  return {calls.one("squeeze.dim", {calls.one("max_unpool2d", {plane, places, sizes}), -1})};
}

// embedding and embedding_bag

/// Rows that are named and longer than `most` are scaled in place, which no gradient sees.
void shorten(Calls& calls, const DTensor& table, const DTensor& indices, const Argument& most,
             const Argument& norm) {
  calls("embedding_renorm_", {grad::unrecorded(table), indices, most, norm});
}

/// (input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
Results embedding_of_bounded_rows(Calls& calls, const Arguments& args) {
  const DTensor& table = args[1].tensor();
  const std::int64_t padding = padding_row("embedding", args[2], args[1]);
  shorten(calls, table, args[0].tensor(), args[3], args[4]);
  return calls("embedding", {table, args[0], padding, args[5], args[6]});
}

/// (input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
/// per_sample_weights, include_last_offset, padding_idx)
Results embedding_bag(Calls& calls, const Arguments& args) {
  static constexpr std::string_view kModes[] = {"sum", "mean", "max"};
  const auto* mode = std::ranges::find(kModes, args[6].string());
  if (mode == std::end(kModes)) {
    fail(Fix{fmt::format("use one of {}", text_of_list(kModes, ", "))},
         "embedding_bag: there is no mode '{}'", args[6].string());
  }
  // Older programs give the table first.
  const bool turned =
      is_floating(args[0].tensor().dtype()) && is_integral(args[1].tensor().dtype());
  const DTensor& table = args[turned ? 0 : 1].tensor();
  DTensor input = args[turned ? 1 : 0].tensor(), offsets;
  Argument weights = args[8], last = args[9];
  if ((input.ndim() == 2) == args[2].is_tensor() || input.ndim() < 1 || input.ndim() > 2) {
    fail(Fix{"give a row for each bag, or a line of indices and its offsets"},
         "embedding_bag: the indices have {} dims, {} offsets; they must have 2 without offsets, "
         "or 1 with them",
         input.ndim(), args[2].is_tensor() ? "with" : "without");
  }
  if (weights.is_tensor() && *mode != "sum") {
    fail(Fix{"use mode='sum', and divide what it gives"},
         "embedding_bag: mode is '{}'; with per_sample_weights it must be 'sum'", *mode);
  }
  if (weights.is_tensor() && weights.tensor().shape() != input.shape()) {
    fail(Fix{"give one weight for each index"},
         "embedding_bag: per_sample_weights has shape [{}]; it must have that of the indices, [{}]",
         text_of_list(weights.tensor().shape(), ", "), text_of_list(input.shape(), ", "));
  }
  if (input.ndim() == 2) {
    const DTensor bags = counted(calls, input, input.shape()[0], input.dtype());
    offsets = calls.one("mul.Scalar", {bags, input.shape()[1]});
    if (weights.is_tensor()) weights = regrouped(calls, weights.tensor(), Dims{input.numel()});
    input = regrouped(calls, input, Dims{input.numel()});
    last = false;
  } else {
    offsets = args[2].tensor();
  }
  if (!args[3].is_none()) shorten(calls, table, input, args[3], args[4]);
  const std::int64_t padding = padding_row("embedding_bag", args[10], args[turned ? 0 : 1]);
  return {calls("_embedding_bag", {table, input, offsets, args[5], mode - std::begin(kModes),
                                   args[7], weights, last, padding})[0]};
}

constexpr const char* kWithPlaces = "the pool that gives places, too";

// Sorted by name.
// clang-format off
constexpr FunctionRow kPoolFunctions[] = {
    {"functional::adaptive_max_pool1d(Tensor input, any output_size, bool return_indices=False) -> "
     "Tensor"_op, adaptive_max_pool<"adaptive_max_pool1d", 1>, kWithPlaces},
    {"functional::adaptive_max_pool2d(Tensor input, any output_size, bool return_indices=False) -> "
     "Tensor"_op, adaptive_max_pool<"adaptive_max_pool2d", 2>, kWithPlaces},
    {"functional::adaptive_max_pool3d(Tensor input, any output_size, bool return_indices=False) -> "
     "Tensor"_op, adaptive_max_pool<"adaptive_max_pool3d", 3>, kWithPlaces},
    {"functional::embedding(Tensor input, Tensor weight, int? padding_idx=None, float max_norm, "
     "float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"_op,
     embedding_of_bounded_rows, "embedding_renorm_ and embedding"},
    {"functional::embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? "
     "max_norm=None, float norm_type=2.0, bool scale_grad_by_freq=False, str mode=\"mean\", bool "
     "sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? "
     "padding_idx=None) -> Tensor"_op, embedding_bag, "_embedding_bag"},
    {"functional::fractional_max_pool2d(Tensor input, int[2] kernel_size, int[2]? "
     "output_size=None, any? output_ratio=None, bool return_indices=False, Tensor? "
     "_random_samples=None) -> Tensor"_op,
     fractional_max_pool<"fractional_max_pool2d", 2>, kWithPlaces, kRandom},
    {"functional::fractional_max_pool3d(Tensor input, int[3] kernel_size, int[3]? "
     "output_size=None, any? output_ratio=None, bool return_indices=False, Tensor? "
     "_random_samples=None) -> Tensor"_op,
     fractional_max_pool<"fractional_max_pool3d", 3>, kWithPlaces, kRandom},
    {"functional::max_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] "
     "padding=0, int[1] dilation=1, bool ceil_mode=False, bool return_indices) -> Tensor"_op,
     max_pool<"max_pool1d_with_indices">, kWithPlaces},
    {"functional::max_pool2d(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] "
     "padding=0, int[2] dilation=1, bool ceil_mode=False, bool return_indices) -> Tensor"_op,
     max_pool<"max_pool2d_with_indices">, kWithPlaces},
    {"functional::max_pool3d(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] "
     "padding=0, int[3] dilation=1, bool ceil_mode=False, bool return_indices) -> Tensor"_op,
     max_pool<"max_pool3d_with_indices">, kWithPlaces},
    {"functional::max_unpool1d(Tensor input, Tensor indices, int[1] kernel_size, int[1]? "
     "stride=None, int[1] padding=0, int[]? output_size=None) -> Tensor"_op, max_unpool<1>,
     "max_unpool2d"},
    {"functional::max_unpool2d(Tensor input, Tensor indices, int[2] kernel_size, int[2]? "
     "stride=None, int[2] padding=0, int[]? output_size=None) -> Tensor"_op, max_unpool<2>,
     "max_unpool2d"},
    {"functional::max_unpool3d(Tensor input, Tensor indices, int[3] kernel_size, int[3]? "
     "stride=None, int[3] padding=0, int[]? output_size=None) -> Tensor"_op, max_unpool<3>,
     "max_unpool3d"},
};
// clang-format on

}  // namespace

Dims pooled_sizes_of(const Argument& given, const DTensor& x, std::size_t dims) {
  ArgumentList sizes(dims, given);
  if (given.is_ints()) sizes.assign(given.ints().begin(), given.ints().end());
  if (given.is_list()) sizes = given.list();
  if (sizes.size() != dims || x.ndim() <= dims) {
    fail(Fix{fmt::format("give {} sizes, and a tensor with channels in front of them", dims)},
         "an adaptive pool of {} dims: output_size is {}, the tensor has {} dims; they must be one "
         "size per pooled dim, and more dims than these",
         dims, given.text(), x.ndim());
  }
  Dims all;
  for (std::size_t d = 0; d < dims; ++d) {
    all.push_back(int_or(sizes[d], x.shape()[x.ndim() - dims + d]));
  }
  return all;
}

std::span<const FunctionRow> pooling_functions() { return kPoolFunctions; }

}  // namespace shardlab
