// Selecting pieces along one dim, and putting them back. The dim must be whole on every rank,
// since its positions count over the whole tensor; all others may be sharded, and partials pass
// where values are only moved.
#include <algorithm>
#include <limits>

#include "base/saturating.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

using Rows = std::vector<RuleRow>;

/// Argument `index` as a dim of the first tensor.
std::int64_t dim_argument(const RuleContext& context, std::size_t index) {
  return wrap_dim(context.schema.args[index].to_int(), context.tensors[0]->ndim());
}

TensorMeta with_size(TensorMeta meta, std::int64_t dim, std::int64_t size) {
  meta.shape[index_of(dim)] = size;
  return meta;
}

void require_dims(const MetaArgs& args) {
  if (args.tensor(0)->shape.empty()) {
    fail(Fix{"give it a dim: x.unsqueeze(0)"}, "{} takes a tensor of at least one dim",
         args.op().name());
  }
}

// slice(self, dim, start, end, step)

struct Slice {
  std::int64_t dim, start, size, step;
  bool whole;  ///< the slice is from the first element to the last, in steps of 1
};

Slice read_slice(const Dims& shape, const Argument& dim, const Argument& start, const Argument& end,
                 const Argument& step) {
  Slice slice{wrap_dim(dim.to_int(), shape.size()), int_or(start, 0), 0, step.to_int(), false};
  const std::int64_t length = shape[index_of(slice.dim)];
  std::int64_t stop = int_or(end, length);
  if (slice.step < 1) {
    fail(Fix{"use flip(x, [dim]), then slice with a positive step"},
         "slice takes a positive step, not {}", slice.step);
  }
  if (slice.start < 0) slice.start += length;
  if (stop < 0) stop += length;
  slice.whole = slice.step == 1 && slice.start == 0 && stop >= length;
  slice.start = std::clamp<std::int64_t>(slice.start, 0, length);
  stop = std::clamp(stop, slice.start, length);
  const std::int64_t reach = stop - slice.start;
  slice.size = reach / slice.step + (reach % slice.step != 0 ? 1 : 0);
  return slice;
}

OutputMetas meta_slice(const MetaArgs& args) {
  require_dims(args);
  const Slice slice = read_slice(args.tensor(0)->shape, args[1], args[2], args[3], args[4]);
  TensorMeta result = with_size(*args.tensor(0), slice.dim, slice.size);
  std::int64_t& stride = result.stride[index_of(slice.dim)];
  stride = saturating_product(stride, slice.step);
  return {{result}};
}

ViewResults view_slice(const Tensor& base, const MetaArgs& args) {
  require_dims(args);
  const Slice slice = read_slice(base.shape(), args[1], args[2], args[3], args[4]);
  const std::int64_t offset = base.offset() + slice.start * base.stride()[index_of(slice.dim)];
  return {{meta_slice(args)[0].meta, offset}};
}

/// A slice of the whole dim keeps its placements; one that starts before the first element does not
/// count as whole, as recorded.
Rows rule_slice(const RuleContext& context) {
  const Arguments& args = context.schema.args;
  const Slice slice = read_slice(context.tensors[0]->shape(), args[1], args[2], args[3], args[4]);
  Rows rows = shard_all_dims_but(context, slice.whole ? -1 : slice.dim, 1);
  append_passing(rows, "sanx", 1, 1);
  return rows;
}

// select(self, dim, index)

std::int64_t selected_index(const Dims& shape, std::int64_t dim, std::int64_t index) {
  const std::int64_t length = shape[index_of(dim)];
  if (index < -length || index >= length) {
    fail(Fix{length == 0 ? std::string("choose another dim; this one is empty")
                         : fmt::format("use an index from {} to {}", -length, length - 1)},
         "index {} is out of range for dim {} of size {}", index, dim, length);
  }
  return index < 0 ? index + length : index;
}

OutputMetas meta_select(const MetaArgs& args) {
  require_dims(args);
  const TensorMeta& self = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[1].to_int(), self.shape.size());
  selected_index(self.shape, dim, args[2].to_int());
  return {{remove_dims(self, Dims{dim})}};
}

ViewResults view_select(const Tensor& base, const MetaArgs& args) {
  require_dims(args);
  const std::int64_t dim = wrap_dim(args[1].to_int(), base.shape().size());
  const std::int64_t index = selected_index(base.shape(), dim, args[2].to_int());
  return {{meta_select(args)[0].meta, base.offset() + index * base.stride()[index_of(dim)]}};
}

/// Rows where input dims other than `dim` are sharded, for ops that remove that dim.
Rows without_dim(const RuleContext& context, std::int64_t dim, std::size_t outputs) {
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (d == dim) continue;
    rows.push_back({RuleCells(outputs, any(d < dim ? d : d - 1)), {any(d)}});
  }
  append_passing(rows, "sanx", outputs, 1);
  return rows;
}

Rows rule_select(const RuleContext& context) {
  return without_dim(context, dim_argument(context, 1), 1);
}

// Their backwards: zeros of shape `input_sizes` with the gradient put in place.

OutputMetas zeros_around(const MetaArgs& args, const Dims& shape, const Dims& part) {
  const TensorMeta& gradient = *args.tensor(0);
  check_gradient_shape(args, gradient.shape, part, "the part that was taken");
  return {{contiguous_meta(shape, gradient.dtype)}};
}

Dims input_sizes(const MetaArgs& args) {
  const Dims sizes = ints_of(args[1]);
  if (sizes.empty() || std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; })) {
    fail(Fix{"pass the shape of the tensor that the part was taken from: x.shape"},
         "{}: input_sizes is [{}]; it must have one size per dim, none negative", args.op().name(),
         text_of_list(sizes, ", "));
  }
  return sizes;
}

OutputMetas meta_select_backward(const MetaArgs& args) {
  const Dims sizes = input_sizes(args);
  const std::int64_t dim = wrap_dim(args[2].to_int(), sizes.size());
  selected_index(sizes, dim, args[3].to_int());
  Dims part = sizes;
  part.erase(index_of(dim));
  return zeros_around(args, sizes, part);
}

OutputMetas meta_slice_backward(const MetaArgs& args) {
  const Dims sizes = input_sizes(args);
  const Slice slice = read_slice(sizes, args[2], args[3], args[4], args[5]);
  Dims part = sizes;
  part[index_of(slice.dim)] = slice.size;
  return zeros_around(args, sizes, part);
}

Rows rule_select_backward(const RuleContext& context) {
  const std::size_t ndim = ints_of(context.schema.args[1]).size();
  const std::int64_t dim = wrap_dim(context.schema.args[2].to_int(), ndim);
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    rows.push_back({{any(d < dim ? d : d + 1)}, {any(d)}});
  }
  append_passing(rows, "sanx", 1, 1);
  return rows;
}

Rows rule_slice_backward(const RuleContext& context) {
  Rows rows = shard_all_dims_but(context, dim_argument(context, 2), 1);
  append_passing(rows, "sanx", 1, 1);
  return rows;
}

// self with a part replaced by src

Rows rule_slice_scatter(const RuleContext& context) {
  Rows rows = shard_all_dims_but(context, dim_argument(context, 2), 2);
  append_passing(rows, "sanx", 1, 2);
  return rows;
}

Rows rule_select_scatter(const RuleContext& context) {
  const std::int64_t dim = dim_argument(context, 2);
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (d != dim) rows.push_back({{any(d)}, {any(d), any(d < dim ? d : d - 1)}});
  }
  return rows;
}

/// src has both dims of the diagonal removed and its length as last dim.
Rows rule_diagonal_scatter(const RuleContext& context) {
  const std::int64_t dim1 = dim_argument(context, 3), dim2 = dim_argument(context, 4);
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (d == dim1 || d == dim2) continue;
    const std::int64_t removed = (d > dim1 ? 1 : 0) + (d > dim2 ? 1 : 0);
    rows.push_back({{any(d)}, {any(d), any(d - removed)}});
  }
  return rows;
}

// split(self, sizes, dim)

/// More would cost memory that no program means to spend.
void require_few_pieces(std::int64_t count, const MetaArgs& args) {
  constexpr std::int64_t kMostPieces = 1 << 20;
  if (count <= kMostPieces) return;
  fail(Fix{"reshape to one more dim, or cut into larger pieces"},
       "{} makes {} pieces; at most {} are possible", args.op().base, count, kMostPieces);
}

Dims split_sizes(const MetaArgs& args, std::int64_t length) {
  if (!args[1].is_scalar()) return ints_of(args[1]);
  const std::int64_t size = args[1].to_int();
  if (size < 0 || (size == 0 && length != 0)) {
    fail(Fix{"pass the elements of one piece; chunk(x, n) makes n pieces"},
         "split takes a positive size, not {}", size);
  }
  Dims sizes;
  if (length > 0) require_few_pieces((length - 1) / size + 1, args);
  for (std::int64_t left = length; left > 0; left -= sizes.back()) {
    sizes.push_back(std::min(size, left));
  }
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

OutputMetas meta_split(const MetaArgs& args) {
  require_dims(args);
  const TensorMeta& self = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[2].to_int(), self.shape.size());
  const std::int64_t length = self.shape[index_of(dim)];
  OutputMetas metas;
  std::int64_t sum = 0;
  for (const std::int64_t size : split_sizes(args, length)) {
    if (size < 0) {
      fail(Fix{"write each size itself; split infers none from -1"},
           "split: a size is {}; it must be 0 or more", size);
    }
    metas.push_back({with_size(self, dim, size)});
    sum += std::min(size, std::numeric_limits<std::int64_t>::max() - sum);
  }
  if (sum != length) {
    fail(Fix{"pass one size, split(x, 2), to get a shorter last piece"},
         "the sizes of a split of dim {} add up to {}, not {}", dim, sum, length);
  }
  return metas;
}

OutputMetas meta_split_copy(const MetaArgs& args) {
  OutputMetas metas = meta_split(args);
  for (OutputMeta& output : metas) output.meta.stride = contiguous_strides(output.meta.shape);
  return metas;
}

ViewResults view_split(const Tensor& base, const MetaArgs& args) {
  const std::size_t dim = index_of(wrap_dim(args[2].to_int(), base.shape().size()));
  ViewResults views;
  std::int64_t offset = base.offset();
  for (OutputMeta& output : meta_split(args)) {
    const std::int64_t step = output.meta.shape[dim] * base.stride()[dim];
    views.push_back({std::move(output.meta), offset});
    offset += step;
  }
  return views;
}

Rows rule_split(const RuleContext& context) {
  const std::int64_t dim = dim_argument(context, 2);
  const std::size_t count = context.outputs.size();
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (d != dim) rows.push_back(uniform_row(any(d), count, 1));
  }
  append_passing(rows, "sanx", count, 1);
  return rows;
}

// unbind(self, dim)

OutputMetas meta_unbind(const MetaArgs& args) {
  require_dims(args);
  const TensorMeta& self = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[1].to_int(), self.shape.size());
  require_few_pieces(self.shape[index_of(dim)], args);
  return OutputMetas(index_of(self.shape[index_of(dim)]), {remove_dims(self, Dims{dim})});
}

ViewResults view_unbind(const Tensor& base, const MetaArgs& args) {
  const std::int64_t stride =
      base.stride()[index_of(wrap_dim(args[1].to_int(), base.shape().size()))];
  ViewResults views;
  for (OutputMeta& output : meta_unbind(args)) {
    const auto position = static_cast<std::int64_t>(views.size());
    views.push_back({std::move(output.meta), base.offset() + position * stride});
  }
  return views;
}

Rows rule_unbind(const RuleContext& context) {
  const std::int64_t dim = dim_argument(context, 1);
  for (const Placement& placement : context.tensors[0]->placements()) {
    if (!placement.is_shard(dim)) continue;
    fail(ErrorKind::kRuntime, Fix{"redistribute the input before unbind"},
         "unbind along dim {}, which is sharded", dim);
  }
  return without_dim(context, dim, context.outputs.size());
}

const char* keeps_input(const RuleContext& context, std::span<const Placements> inputs) {
  return inputs[0] == context.tensors[0]->placements() ? nullptr
                                                       : "unbind is a view: its input stays";
}

// Ops that work on some dims only.

template <std::size_t argument>
Rows rule_other_dims(const RuleContext& context) {
  const std::size_t ndim = context.tensors[0]->ndim();
  Dims active = wrap_dims(ints_of(context.schema.args[argument]), ndim);
  if (active.empty() && argument == 2) {  // roll without dims rolls the flattened tensor
    for (std::int64_t d = 0; d < ndim_of(context); ++d) active.push_back(d);
  }
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (std::ranges::find(active, d) == active.end()) rows.push_back(uniform_row(any(d), 1, 1));
  }
  append_passing(rows, "saxn", 1, 1);
  return rows;
}

// flip(self, dims)
OutputMetas meta_flip(const MetaArgs& args) {
  distinct_dims("flip", args[1], args.tensor(0)->shape.size());
  return meta_contiguous(args);
}

// roll(self, shifts, dims)
OutputMetas meta_roll(const MetaArgs& args) {
  const std::size_t shifts = ints_of(args[1]).size(), dims = ints_of(args[2]).size();
  if (shifts == 0 || (dims != shifts && !(dims == 0 && shifts == 1))) {
    fail(Fix{"give one shift per dim: roll(x, [1, 2], [0, 1]), or one shift alone: roll(x, 1)"},
         "roll: there are {} shifts for {} dims; there must be one per dim, or one alone", shifts,
         dims);
  }
  if (dims > 0 && args.tensor(0)->shape.empty()) {
    fail(Fix{"leave dims out: roll(x, 1)"}, "roll: the tensor has no dim to roll along");
  }
  return meta_contiguous(args);
}

// Elements that leave a dim at one end enter at the other.
DTensor rolled(Calls& calls, const DTensor& x, std::int64_t shift, std::int64_t dim) {
  const std::int64_t length = x.shape()[index_of(dim)];
  const std::int64_t moved = length == 0 ? 0 : ((shift % length) + length) % length;
  const auto part = [&](std::int64_t from, std::int64_t to) {
    return calls.one("slice.Tensor", {x, dim, from, to});
  };
  const ArgumentList parts{part(length - moved, length), part(0, length - moved)};
  return calls.one("cat", {parts, dim});
}

Results roll_locally(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Dims shifts = ints_of(args[1]), dims = wrap_dims(ints_of(args[2]), x.ndim());
  DTensor result = x;
  if (dims.empty()) {
    const DTensor flat = reshape(calls, x, Dims{x.numel()});
    result = reshape(calls, rolled(calls, flat, shifts[0], 0), x.shape());
  }
  for (std::size_t i = 0; i < dims.size(); ++i) result = rolled(calls, result, shifts[i], dims[i]);
  return {Argument(std::move(result))};
}

// Outputs without a gradient count as zeros.
ArgumentList present_grads(const GradContext& context) {
  const ArgumentList& outputs = context.outputs[0].list();
  ArgumentList pieces;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const DTensor& gradient = context.grads[i];
    pieces.emplace_back(gradient.defined() ? gradient
                                           : zeros_like(context.calls, outputs[i].tensor()));
  }
  return pieces;
}

Gradients grad_roll(const GradContext& context) {
  Dims back = context.inputs[1].ints();
  for (std::int64_t& shift : back) shift = -shift;
  return {context.calls.one("aten::roll", {context.grads[0], back, context.inputs[2]})};
}

Gradients grad_select(const GradContext& context) {
  return {context.calls.one("aten::select_backward", {context.grads[0], input(context, 0).shape(),
                                                      context.inputs[1], context.inputs[2]})};
}

Gradients grad_slice(const GradContext& context) {
  const Dims& shape = input(context, 0).shape();
  const std::int64_t dim = wrap_dim(context.inputs[1].to_int(), shape.size());
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  return {context.calls.one("aten::slice_backward",
                            {context.grads[0], shape, dim, int_or(context.inputs[2], 0),
                             int_or(context.inputs[3], size), context.inputs[4]})};
}

Gradients grad_split(const GradContext& context) {
  return {context.calls.one("aten::cat", {present_grads(context), context.inputs[2]})};
}

Results split_copies(Calls& calls, const OpRow&, const Arguments& args) {
  Results results = calls("split_with_sizes", args);
  ArgumentList copies;
  for (const Argument& piece : results[0].list()) {
    copies.emplace_back(calls.one("clone", {piece, "contiguous_format"}));
  }
  return {Argument(std::move(copies))};
}

Gradients grad_unbind(const GradContext& context) {
  return {context.calls.one("aten::stack", {present_grads(context), context.inputs[1]})};
}

// A copy of self, of which a view takes src's values.
template <FixedText view>
Results put(Calls& calls, const OpRow& row, const Arguments& args) {
  DTensor result = calls.one("clone", {args[0]});
  Arguments part(args.begin() + 2, args.end() - (row.out_variant() ? 1 : 0));
  part.insert(part.begin(), Argument(result));
  const DTensor target = calls.one(view, std::move(part));
  require_part_shape(row.op.base, args[1].tensor().shape(), target.shape());
  calls("copy_", {target, args[1]});
  return {Argument(std::move(result))};
}

// The part belongs to src, all else to self. `scatter` and `view` take the same arguments behind
// src and self.
template <FixedText scatter, FixedText view>
Gradients grad_put(const GradContext& context) {
  const auto at_place = [&](std::string_view op, Arguments args) {
    args.insert(args.end(), context.inputs.begin() + 2, context.inputs.end());
    return context.calls.one(op, std::move(args));
  };
  const DTensor& gradient = context.grads[0];
  return each(
      context,
      [&] {
        return at_place(scatter, {gradient, zeros_like(context.calls, input(context, 1))});
      },
      [&] { return at_place(view, {gradient}); });
}

// Sorted by name.
// clang-format off
constexpr Row kSelectRows[] = {
    {"diagonal_scatter"_op, meta_contiguous, rule_diagonal_scatter, put<"diagonal">,
     {grad_put<"diagonal_scatter", "diagonal">, ""}, "both dims of the diagonal stay whole", 0,
     {1}},
    {"flip"_op, meta_flip, rule_other_dims<1>, KernelId::kFlip, {grad_by<"flip", 1>, ""},
     "a flipped dim crosses ranks", 0, {1}},
    {"roll"_op, meta_roll, rule_other_dims<2>, roll_locally, {grad_roll, ""},
     "a rolled dim crosses ranks", 0, {1}},
    {"select.int"_op, meta_select, rule_select, view_select, {grad_select, ""},
     "the index is global", kAllowUneven, {1}},
    {"select_backward"_op, meta_select_backward, rule_select_backward, KernelId::kSelectBackward,
     {grad_by<"select.int", 2, 3>, ""}, "the index is global", kAllowUneven, {1}, nullptr, 1},
    {"select_scatter"_op, meta_contiguous, rule_select_scatter, put<"select.int">,
     {grad_put<"select_scatter", "select.int">, ""}, "the index is global", 0, {1}},
    {"slice.Tensor"_op, meta_slice, rule_slice, view_slice, {grad_slice, ""}, "bounds are global",
     kAllowUneven, {1}},
    {"slice_backward"_op, meta_slice_backward, rule_slice_backward, KernelId::kSliceBackward,
     {grad_by<"slice.Tensor", 2, 3, 4, 5>, ""}, "bounds are global", kAllowUneven, {1},
     nullptr, 1},
    {"slice_scatter"_op, meta_contiguous, rule_slice_scatter, put<"slice.Tensor">,
     {grad_put<"slice_scatter", "slice.Tensor">, ""}, "bounds are global", kAllowUneven, {2}},
    {"split.Tensor"_op, meta_split, rule_split, view_split, {grad_split, "~result"},
     "bounds are global", 0, {1}},
    {"split_with_sizes"_op, meta_split, rule_split, view_split, {grad_split, "~result"},
     "bounds are global", 0, {1}},
    {"split_with_sizes_copy"_op, meta_split_copy, rule_split, split_copies, {grad_split, "~result"},
     "bounds are global", 0, {1}},
    {"unbind.int"_op, meta_unbind, rule_unbind, view_unbind, {grad_unbind, "~result"},
     "a view that never moves data", kAllowUneven, {1}, keeps_input},
};
// clang-format on

}  // namespace

void register_select(OpRegistry& registry) { add_rows(registry, kSelectRows, kExact); }

}  // namespace shardlab
