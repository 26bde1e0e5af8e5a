// Windows that move over a tensor, and places behind its edges: unfold, im2col and their way back,
// reflected and replicated pads. All but the view are programs over slices.
#include <algorithm>
#include <array>

#include "base/saturating.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

DTensor part_of(Calls& calls, const DTensor& x, std::int64_t dim, std::int64_t start,
                std::int64_t end, std::int64_t step = 1) {
  return calls.one("slice.Tensor", {x, dim, start, end, step});
}

/// Zeros as long as `length` in `dim`, with `x` in place of a slice.
DTensor put_back(Calls& calls, const DTensor& x, std::int64_t dim, std::int64_t length,
                 std::int64_t start, std::int64_t end, std::int64_t step = 1) {
  Dims shape = x.shape();
  shape[index_of(dim)] = length;
  return calls.one("slice_backward", {x, shape, dim, start, end, step});
}

DTensor sum_of(Calls& calls, const DTensor& a, const DTensor& b) {
  return calls.one("add.Tensor", {a, b});
}

// unfold(self, dimension, size, step): windows of a dim, each as a new last dim

/// Number of windows of `size`.
std::int64_t window_count(const OpDescriptor& op, std::int64_t length, std::int64_t size,
                          std::int64_t step) {
  if (size < 0 || size > length || step < 1) {
    fail(Fix{"give windows no longer than the dim, and a step of at least 1"},
         "{}: windows have {} elements and are {} apart; they must fit a dim of size {}", op.base,
         size, step, length);
  }
  return (length - size) / step + 1;
}

OutputMetas meta_unfold(const MetaArgs& args) {
  TensorMeta result = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[1].to_int(), result.shape.size());
  const std::int64_t size = args[2].to_int(), step = args[3].to_int();
  if (result.shape.empty()) {
    window_count(args.op(), 1, size, step);
    return {{{Dims{size}, Dims{1}, result.dtype}}};
  }
  std::int64_t& length = result.shape[index_of(dim)];
  std::int64_t& stride = result.stride[index_of(dim)];
  length = window_count(args.op(), length, size, step);
  result.shape.push_back(size);
  result.stride.push_back(stride);
  result.stride[index_of(dim)] = saturating_product(result.stride[index_of(dim)], step);
  return {{result}};
}

ViewResults view_unfold(const Tensor& base, const MetaArgs& args) {
  return {{meta_unfold(args)[0].meta, base.offset()}};
}

/// Windows cross the pieces of their dim.
std::vector<RuleRow> unfold_rule(const RuleContext& context) {
  const std::int64_t dim = wrap_dim(context.schema.args[1].to_int(), context.tensors[0]->ndim());
  std::vector<RuleRow> rows = shard_all_dims_but(context, dim, 1);
  append_passing(rows, "sanx", 1, 1);
  return rows;
}

/// unfold_backward(grad_in, input_sizes, dim, size, step)
Results unfold_backward(Calls& calls, const Arguments& args) {
  const DTensor& windows = args[0].tensor();
  const Dims shape = ints_of(args[1]);
  const std::int64_t size = args[3].to_int(), step = args[4].to_int();
  const std::int64_t dim = wrap_dim(args[2].to_int(), shape.size());
  const OpDescriptor& op = calls.find("unfold_backward").op;
  const std::int64_t length = shape.empty() ? 1 : shape[index_of(dim)];
  const std::int64_t count = window_count(op, length, size, step);
  Dims expected = shape;
  if (!shape.empty()) expected[index_of(dim)] = count;
  expected.push_back(size);
  if (windows.shape() != expected) {
    fail(Fix{"pass the gradient of what unfold gave"},
         "unfold_backward: the gradient has shape [{}], must have [{}]",
         text_of_list(windows.shape(), ", "), text_of_list(expected, ", "));
  }
  if (shape.empty()) return {calls.one("sum", {windows})};
  DTensor result = calls.one("new_zeros", {windows, shape});
  for (std::int64_t k = 0; k < size; ++k) {
    const DTensor one = calls.one("select.int", {windows, -1, k});
    const std::int64_t end = k + (count - 1) * step + 1;
    result = sum_of(calls, result, put_back(calls, one, dim, length, k, end, step));
  }
  return {result};
}

Gradients grad_unfold(const GradContext& context) {
  return {context.calls.one("aten::unfold_backward",
                            {context.grads[0], input(context, 0).shape(), context.inputs[1],
                             context.inputs[2], context.inputs[3]})};
}

// im2col(self, kernel_size, dilation, padding, stride) and col2im(self, output_size, ..): windows
// of two dims as columns.

/// One of the two dims.
struct Extent {
  std::int64_t kernel, dilation, padding, stride, length;
  std::int64_t padded() const { return length + 2 * padding; }
  std::int64_t count() const { return (padded() - dilation * (kernel - 1) - 1) / stride + 1; }
  std::int64_t end(std::int64_t place) const {
    return place * dilation + (count() - 1) * stride + 1;
  }
};

std::array<Extent, 2> extents(std::string_view op, std::span<const Argument> numbers,
                              std::array<std::int64_t, 2> lengths) {
  std::array<Extent, 2> both{};
  for (std::size_t d = 0; d < 2; ++d) {
    std::array<std::int64_t, 4> number{};
    for (std::size_t i = 0; i < 4; ++i) {
      const Dims given = ints_of(numbers[i]);
      if (given.size() != 2) {
        fail(Fix{"give one number for height and one for width"},
             "{} takes two numbers for each of its sizes, not {}", op, given.size());
      }
      number[i] = given[d];
    }
    Extent& extent = both[d];
    extent = {number[0], number[1], number[2], number[3], lengths[d]};
    constexpr std::int64_t kMost = 1 << 30;
    const bool sensible = extent.kernel > 0 && extent.dilation > 0 && extent.padding >= 0 &&
                          extent.stride > 0 && extent.length >= 0 && extent.kernel < kMost &&
                          extent.dilation < kMost && extent.padding < kMost;
    if (sensible && extent.dilation * (extent.kernel - 1) + 1 <= extent.padded()) continue;
    fail(Fix{"give windows that fit the padded picture"},
         "{}: a window has {} places, {} apart; it must fit into {} pixels with {} on each side",
         op, extent.kernel, extent.dilation, extent.length, extent.padding);
  }
  return both;
}

/// A picture or column tensor with a batch dim in front, and whether it is new.
DTensor batched(Calls& calls, const DTensor& x, std::size_t ndim, std::string_view op) {
  if (x.ndim() == ndim) return x;
  if (x.ndim() + 1 == ndim) return calls.one("unsqueeze", {x, 0});
  fail(Fix{"give a batch, or one of its elements"}, "{} takes a tensor of {} or {} dims, not {}",
       op, ndim - 1, ndim, x.ndim());
}

Results unbatched(Calls& calls, const DTensor& x, bool batch) {
  return {batch ? x : calls.one("squeeze.dim", {x, 0})};
}

Results im2col(Calls& calls, const Arguments& args) {
  const DTensor x = batched(calls, args[0].tensor(), 4, "im2col");
  const auto [h, w] = extents("im2col", {&args[1], 4}, {x.shape()[2], x.shape()[3]});
  const DTensor padded =
      calls.one("constant_pad_nd", {x, Dims{w.padding, w.padding, h.padding, h.padding}});
  ArgumentList places;
  for (std::int64_t i = 0; i < h.kernel; ++i) {
    const DTensor rows = part_of(calls, padded, 2, i * h.dilation, h.end(i), h.stride);
    for (std::int64_t j = 0; j < w.kernel; ++j) {
      places.emplace_back(part_of(calls, rows, 3, j * w.dilation, w.end(j), w.stride));
    }
  }
  const DTensor columns = calls.one("stack", {places, 2});
  const Dims shape{x.shape()[0], x.shape()[1] * h.kernel * w.kernel, h.count() * w.count()};
  return unbatched(calls, regrouped(calls, columns, shape), args[0].tensor().ndim() == 4);
}

Results col2im(Calls& calls, const Arguments& args) {
  const Dims size = ints_of(args[1]);
  if (size.size() != 2) {
    fail(Fix{"give height and width"}, "col2im takes two numbers as output_size, not {}",
         size.size());
  }
  const DTensor x = batched(calls, args[0].tensor(), 3, "col2im");
  const auto [h, w] = extents("col2im", {&args[2], 4}, {size[0], size[1]});
  const std::int64_t window = h.kernel * w.kernel;
  if (x.shape()[1] % window != 0 || x.shape()[2] != h.count() * w.count()) {
    fail(Fix{fmt::format("give columns of shape [batch, channels * {}, {}]", window,
                         h.count() * w.count())},
         "col2im: columns of shape [{}] do not make pictures of {} by {}",
         text_of_list(x.shape(), ", "), size[0], size[1]);
  }
  const Dims apart{x.shape()[0], x.shape()[1] / window, window, h.count(), w.count()};
  const DTensor places = regrouped(calls, x, apart);
  DTensor picture = calls.one("new_zeros", {x, Dims{apart[0], apart[1], h.padded(), w.padded()}});
  for (std::int64_t k = 0; k < window; ++k) {
    const std::int64_t i = k / w.kernel, j = k % w.kernel;
    DTensor one = calls.one("select.int", {places, 2, k});
    one = put_back(calls, one, 3, w.padded(), j * w.dilation, w.end(j), w.stride);
    one = put_back(calls, one, 2, h.padded(), i * h.dilation, h.end(i), h.stride);
    picture = sum_of(calls, picture, one);
  }
  picture =
      calls.one("constant_pad_nd", {picture, Dims{-w.padding, -w.padding, -h.padding, -h.padding}});
  return unbatched(calls, picture, args[0].tensor().ndim() == 3);
}

// Pads of the last dims, which continue the tensor; negative numbers cut off.

enum class Edge : std::uint8_t { kReflected, kReplicated };

struct Pad {
  std::int64_t dim, front, behind;
};

/// Pads of the last `dims` dims, from the last on.
std::vector<Pad> pads_of(std::string_view op, const DTensor& x, const Argument& padding,
                         std::size_t dims, Edge edge) {
  const Dims counts = ints_of(padding);
  if (counts.size() != 2 * dims || (x.ndim() != dims + 1 && x.ndim() != dims + 2)) {
    fail(Fix{fmt::format("give {} numbers and a tensor of {} or {} dims", 2 * dims, dims + 1,
                         dims + 2)},
         "{}: there are {} numbers for a tensor of {} dims; there must be two per padded dim, and "
         "channels in front",
         op, counts.size(), x.ndim());
  }
  std::vector<Pad> pads;
  for (std::size_t i = 0; i < dims; ++i) {
    const Pad pad{static_cast<std::int64_t>(x.ndim() - 1 - i), counts[2 * i], counts[2 * i + 1]};
    const std::int64_t length = x.shape()[index_of(pad.dim)];
    const std::int64_t most = edge == Edge::kReflected ? length - 1 : 1 << 30;
    const bool fits = pad.front <= most && pad.behind <= most && -pad.front <= length &&
                      -pad.behind <= length && length + pad.front + pad.behind >= 1 && length > 0;
    if (!fits) {
      fail(Fix{edge == Edge::kReflected
                   ? fmt::format("pad each side by at most {}", std::max<std::int64_t>(most, 0))
                   : "leave at least one element"},
           "{}: dim {} of size {} cannot be padded by {} and {}", op, pad.dim, length, pad.front,
           pad.behind);
    }
    pads.push_back(pad);
  }
  return pads;
}

DTensor flipped(Calls& calls, const DTensor& x, std::int64_t dim) {
  return calls.one("flip", {x, Dims{dim}});
}

/// The element at `place`, `count` times.
DTensor repeated(Calls& calls, const DTensor& x, std::int64_t dim, std::int64_t place,
                 std::int64_t count) {
  Dims shape = x.shape();
  shape[index_of(dim)] = count;
  return calls.one("expand", {part_of(calls, x, dim, place, place + 1), shape});
}

DTensor padded(Calls& calls, const DTensor& x, const Pad& pad, Edge edge) {
  const std::int64_t length = x.shape()[index_of(pad.dim)];
  ArgumentList parts;
  const bool reflected = edge == Edge::kReflected;
  if (pad.front > 0) {
    parts.emplace_back(reflected
                           ? flipped(calls, part_of(calls, x, pad.dim, 1, pad.front + 1), pad.dim)
                           : repeated(calls, x, pad.dim, 0, pad.front));
  }
  parts.emplace_back(part_of(calls, x, pad.dim, std::max<std::int64_t>(-pad.front, 0),
                             length + std::min<std::int64_t>(pad.behind, 0)));
  if (pad.behind > 0) {
    const std::int64_t last = length - 1;
    parts.emplace_back(
        reflected ? flipped(calls, part_of(calls, x, pad.dim, last - pad.behind, last), pad.dim)
                  : repeated(calls, x, pad.dim, last, pad.behind));
  }
  return calls.one("cat", {parts, pad.dim});
}

/// Gathered once, instead of for each part.
DTensor whole_in(Calls& calls, const DTensor& x, std::span<const Pad> pads) {
  Dims dims;
  for (const Pad& pad : pads) {
    if (pad.front != 0 || pad.behind != 0) dims.push_back(pad.dim);
  }
  return gathered(calls, x, dims);
}

/// reflection_pad1d, 2d, 3d and replication_pad1d, 2d, 3d(self, padding)
template <FixedText op, std::size_t dims, Edge edge>
Results pad_edges(Calls& calls, const Arguments& args) {
  const std::vector<Pad> pads = pads_of(op, args[0].tensor(), args[1], dims, edge);
  DTensor x = whole_in(calls, args[0].tensor(), pads);
  for (const Pad& pad : pads) x = padded(calls, x, pad, edge);
  return {x};
}

/// A dim that is a circle: the places behind one end are those before the other.
DTensor wrapped(Calls& calls, const DTensor& x, const Pad& pad) {
  const std::int64_t length = x.shape()[index_of(pad.dim)];
  const std::int64_t first = std::max<std::int64_t>(-pad.front, 0),
                     last = length + std::min<std::int64_t>(pad.behind, 0);
  if (pad.front > length || pad.behind > length || length + pad.front + pad.behind <= 0) {
    fail(Fix{"pad each side by at most the size, and leave an element"},
         "circular pad: dim {} of size {} cannot be padded by {} and {}", pad.dim, length,
         pad.front, pad.behind);
  }
  const DTensor middle = part_of(calls, x, pad.dim, first, last);
  ArgumentList parts;
  const std::int64_t kept = last - first;
  if (pad.front > 0) parts.emplace_back(part_of(calls, middle, pad.dim, kept - pad.front, kept));
  parts.emplace_back(middle);
  if (pad.behind > 0) parts.emplace_back(part_of(calls, middle, pad.dim, 0, pad.behind));
  return calls.one("cat", {parts, pad.dim});
}

Results pad_circle(Calls& calls, const Arguments& args) {
  const Dims counts = ints_of(args[1]);
  const DTensor& x = args[0].tensor();
  const std::size_t padded_dims = counts.size() / 2;
  if (counts.size() % 2 != 0 || (x.ndim() != padded_dims + 1 && x.ndim() != padded_dims + 2)) {
    fail(Fix{"pad all dims of [channels, ..] or [batch, channels, ..] but these"},
         "circular pad: there are {} numbers for a tensor of {} dims; there must be two per padded "
         "dim",
         counts.size(), x.ndim());
  }
  std::vector<Pad> pads;
  for (std::size_t i = 0; i < counts.size() / 2; ++i) {
    pads.push_back({static_cast<std::int64_t>(x.ndim() - 1 - i), counts[2 * i], counts[2 * i + 1]});
  }
  DTensor result = whole_in(calls, x, pads);
  for (const Pad& pad : pads) result = wrapped(calls, result, pad);
  return {result};
}

/// pad(self, pad, mode, value)
Results pad_by_mode(Calls& calls, const Arguments& args) {
  const std::string& mode = args[2].string();
  const bool valued = !args[3].is_none();
  if (mode == "constant") {
    return calls("constant_pad_nd", {args[0], args[1], valued ? args[3] : Argument(0.0)});
  }
  const std::size_t dims = ints_of(args[1]).size() / 2, ndim = args[0].tensor().ndim();
  const bool edges = mode == "reflect" || mode == "replicate";
  if (valued && args[3].to_double() != 0) {
    fail(Fix{"leave value out"}, "pad: mode '{}' takes no value", mode);
  }
  if (mode == "circular") return pad_circle(calls, args);
  if (!edges || dims < 1 || dims > 3 || (ndim != dims + 1 && ndim != dims + 2)) {
    fail(Fix{"use 'constant'; or 'reflect', 'replicate' or 'circular' for the last dims behind "
             "channels"},
         "pad: there is no mode '{}' for {} dims of a tensor of {}", mode, dims, ndim);
  }
  const std::string_view family = mode == "reflect" ? "reflection_pad" : "replication_pad";
  return calls(fmt::format("aten::{}{}d", family, dims), {args[0], args[1]});
}

/// Gradients behind an edge are added to the places that they reflect, or to the end that they
/// repeat.
DTensor folded_back(Calls& calls, const DTensor& x, const Pad& pad, std::int64_t length,
                    Edge edge) {
  const std::int64_t front = std::max<std::int64_t>(pad.front, 0);
  const std::int64_t behind = std::max<std::int64_t>(pad.behind, 0);
  const std::int64_t first = front - pad.front,
                     last = length + std::min<std::int64_t>(pad.behind, 0);
  const std::int64_t middle = front + last - first;
  DTensor sum =
      put_back(calls, part_of(calls, x, pad.dim, front, middle), pad.dim, length, first, last);
  const auto add = [&](const DTensor& part, std::int64_t from, std::int64_t to) {
    sum = sum_of(calls, sum, put_back(calls, part, pad.dim, length, from, to));
  };
  const DTensor before = part_of(calls, x, pad.dim, 0, front);
  const DTensor after = part_of(calls, x, pad.dim, middle, middle + behind);
  if (edge == Edge::kReplicated) {
    const auto total = [&](const DTensor& part) {
      return calls.one("sum.dim_IntList", {part, Dims{pad.dim}, true});
    };
    if (front > 0) add(total(before), 0, 1);
    if (behind > 0) add(total(after), length - 1, length);
    return sum;
  }
  if (front > 0) add(flipped(calls, before, pad.dim), 1, front + 1);
  if (behind > 0) add(flipped(calls, after, pad.dim), length - 1 - behind, length - 1);
  return sum;
}

/// reflection_pad1d_backward, 2d, 3d and replication_pad1d_backward, 2d, 3d(grad_output, self,
/// padding)
template <FixedText op, std::size_t dims, Edge edge>
Results pad_backward(Calls& calls, const Arguments& args) {
  DTensor gradient = args[0].tensor();
  const DTensor& self = args[1].tensor();
  std::vector<Pad> pads = pads_of(op, self, args[2], dims, edge);
  require_one_dtype(op, {{"grad_output", args[0]}, {"self", args[1]}});
  Dims expected = self.shape();
  for (const Pad& pad : pads) expected[index_of(pad.dim)] += pad.front + pad.behind;
  if (gradient.shape() != expected) {
    fail(Fix{"pass the gradient of what the pad gave"},
         "{}: the gradient has shape [{}], must have [{}]", op,
         text_of_list(gradient.shape(), ", "), text_of_list(expected, ", "));
  }
  gradient = whole_in(calls, gradient, pads);
  std::ranges::reverse(pads);
  for (const Pad& pad : pads) {
    gradient = folded_back(calls, gradient, pad, self.shape()[index_of(pad.dim)], edge);
  }
  return {gradient};
}

constexpr const char* kSlices = "slices and flips next to the tensor";
constexpr const char* kEnds = "the ends, stretched, next to the tensor";
constexpr const char* kBack = "sums of slices";

template <FixedText op, std::size_t dims, Edge edge>
constexpr Row padded(RowText name, const char* why) {
  return composite(name, pad_edges<op, dims, edge>, {nullptr, "self"}, why);
}
template <FixedText op, std::size_t dims, Edge edge>
constexpr Row padded_back(RowText name) {
  return composite(name, pad_backward<op, dims, edge>, {nullptr, "grad_output"}, kBack);
}

// Sorted by name.
// clang-format off
constexpr Row kWindowRows[] = {
    composite("_pad_circular"_op, pad_circle, "slices next to the tensor"),
    composite("col2im"_op, col2im, kBack),
    composite("im2col"_op, im2col, "a stack of slices"),
    composite("pad"_op, pad_by_mode, "the pad that the mode names"),
    padded<"reflection_pad", 1, Edge::kReflected>("reflection_pad1d"_op, kSlices),
    padded_back<"reflection_pad_backward", 1, Edge::kReflected>("reflection_pad1d_backward"_op),
    padded<"reflection_pad", 2, Edge::kReflected>("reflection_pad2d"_op, kSlices),
    padded_back<"reflection_pad_backward", 2, Edge::kReflected>("reflection_pad2d_backward"_op),
    padded<"reflection_pad", 3, Edge::kReflected>("reflection_pad3d"_op, kSlices),
    padded_back<"reflection_pad_backward", 3, Edge::kReflected>("reflection_pad3d_backward"_op),
    padded<"replication_pad", 1, Edge::kReplicated>("replication_pad1d"_op, kEnds),
    padded_back<"replication_pad_backward", 1, Edge::kReplicated>("replication_pad1d_backward"_op),
    padded<"replication_pad", 2, Edge::kReplicated>("replication_pad2d"_op, kEnds),
    padded_back<"replication_pad_backward", 2, Edge::kReplicated>("replication_pad2d_backward"_op),
    padded<"replication_pad", 3, Edge::kReplicated>("replication_pad3d"_op, kEnds),
    padded_back<"replication_pad_backward", 3, Edge::kReplicated>("replication_pad3d_backward"_op),
    {"unfold"_op, meta_unfold, unfold_rule, view_unfold, {grad_unfold, ""},
     "windows cross the pieces of their dim", kAllowUneven | kExact, {1}},
    composite("unfold_backward"_op, unfold_backward, kBack),
};
// clang-format on

}  // namespace

void register_windows(OpRegistry& registry) { add_rows(registry, kWindowRows); }

}  // namespace shardlab
