// Selecting and joining pieces along one dim. That dim must be whole on every rank, since its
// positions count over the whole tensor; all others may be sharded, and partials pass where values
// are only moved.
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "kernels/kernel_id.h"
#include "ops/arguments.h"
#include "ops/derive.h"
#include "ops/gradient_shape.h"
#include "ops/matmul.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/view_meta.h"

namespace shardlab {
namespace {

using Metas = std::vector<OutputMeta>;
using Rows = std::vector<RuleRow>;

RulePlacement any(std::int64_t dim) { return RulePlacement::any(dim); }
RulePlacement whole() { return RulePlacement::of(Placement::replicate()); }

std::int64_t ndim_of(const RuleContext& context) {
  return static_cast<std::int64_t>(context.tensors[0]->ndim());
}

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
    fail(ErrorKind::kValue, "{} takes a tensor of at least one dim", args.op().name());
  }
}

// slice(self, dim, start, end, step)

struct Slice {
  std::int64_t dim, start, size, step;
};

Slice read_slice(const Dims& shape, const Argument& dim, const Argument& start, const Argument& end,
                 const Argument& step) {
  Slice slice{wrap_dim(dim.to_int(), shape.size()), int_or(start, 0), 0, step.to_int()};
  const std::int64_t length = shape[index_of(slice.dim)];
  std::int64_t stop = int_or(end, length);
  if (slice.step < 1) fail(ErrorKind::kValue, "slice takes a positive step, not {}", slice.step);
  if (slice.start < 0) slice.start += length;
  if (stop < 0) stop += length;
  slice.start = std::clamp<std::int64_t>(slice.start, 0, length);
  stop = std::clamp(stop, slice.start, length);
  const std::int64_t reach = stop - slice.start;
  slice.size = reach / slice.step + (reach % slice.step != 0 ? 1 : 0);
  return slice;
}

Metas meta_slice(const MetaArgs& args) {
  require_dims(args);
  const Slice slice = read_slice(args.tensor(0)->shape, args[1], args[2], args[3], args[4]);
  TensorMeta result = with_size(*args.tensor(0), slice.dim, slice.size);
  std::int64_t& stride = result.stride[index_of(slice.dim)];
  stride = product(Dims{stride, slice.step});  // the largest number, not an overflow
  return {{result}};
}

ViewResults view_slice(const Tensor& base, const MetaArgs& args) {
  const Slice slice = read_slice(base.shape(), args[1], args[2], args[3], args[4]);
  const std::int64_t offset = base.offset() + slice.start * base.stride()[index_of(slice.dim)];
  return {{meta_slice(args)[0].meta, offset}};
}

/// A slice that keeps the whole dim leaves its placements as they are.
Rows rule_slice(const RuleContext& context) {
  const Arguments& args = context.schema.args;
  const Slice slice = read_slice(context.tensors[0]->shape(), args[1], args[2], args[3], args[4]);
  const std::int64_t length = context.tensors[0]->shape()[index_of(slice.dim)];
  const bool keeps_all = slice.step == 1 && slice.start == 0 && slice.size == length;
  Rows rows = shard_all_dims_but(context, keeps_all ? -1 : slice.dim, 1);
  append_passing(rows, "sanx", 1, 1);
  return rows;
}

// select(self, dim, index)

std::int64_t selected_index(const Dims& shape, std::int64_t dim, std::int64_t index) {
  const std::int64_t length = shape[index_of(dim)];
  if (index < -length || index >= length) {
    fail(ErrorKind::kValue, "index {} is out of range for dim {} of size {}", index, dim, length);
  }
  return index < 0 ? index + length : index;
}

Metas meta_select(const MetaArgs& args) {
  require_dims(args);
  const TensorMeta& self = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[1].to_int(), self.shape.size());
  selected_index(self.shape, dim, args[2].to_int());
  return {{remove_dims(self, Dims{dim})}};
}

ViewResults view_select(const Tensor& base, const MetaArgs& args) {
  const std::int64_t dim = wrap_dim(args[1].to_int(), base.shape().size());
  const std::int64_t index = selected_index(base.shape(), dim, args[2].to_int());
  return {{meta_select(args)[0].meta, base.offset() + index * base.stride()[index_of(dim)]}};
}

/// Rows where input dims other than `dim` are sharded, for ops that remove that dim.
Rows without_dim(const RuleContext& context, std::int64_t dim, std::size_t outputs) {
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (d == dim) continue;
    rows.push_back({std::vector<RulePlacement>(outputs, any(d < dim ? d : d - 1)), {any(d)}});
  }
  append_passing(rows, "sanx", outputs, 1);
  return rows;
}

Rows rule_select(const RuleContext& context) {
  return without_dim(context, dim_argument(context, 1), 1);
}

// Their backwards: zeros of shape `input_sizes` with the gradient put in place.

Metas zeros_around(const MetaArgs& args, const Dims& shape, const Dims& part) {
  const TensorMeta& gradient = *args.tensor(0);
  check_gradient_shape(args, gradient.shape, part, "a part");
  return {{contiguous_meta(shape, gradient.dtype)}};
}

Dims input_sizes(const MetaArgs& args) {
  const Dims sizes = ints_of(args[1]);
  if (sizes.empty() || std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; })) {
    fail(ErrorKind::kValue, "{}: input_sizes [{}]", args.op().name(), fmt::join(sizes, ", "));
  }
  return sizes;
}

Metas meta_select_backward(const MetaArgs& args) {
  const Dims sizes = input_sizes(args);
  const std::int64_t dim = wrap_dim(args[2].to_int(), sizes.size());
  selected_index(sizes, dim, args[3].to_int());
  Dims part = sizes;
  part.erase(index_of(dim));
  return zeros_around(args, sizes, part);
}

Metas meta_slice_backward(const MetaArgs& args) {
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

Metas meta_self(const MetaArgs& args) {
  return {{contiguous_meta(args.tensor(0)->shape, args.tensor(0)->dtype)}};
}

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
  fail(ErrorKind::kValue, "{} makes {} pieces, at most {} are possible", args.op().base, count,
       kMostPieces);
}

Dims split_sizes(const MetaArgs& args, std::int64_t length) {
  if (!args[1].is_scalar()) return ints_of(args[1]);
  const std::int64_t size = args[1].to_int();
  if (size < 0 || (size == 0 && length != 0)) {
    fail(ErrorKind::kValue, "split takes a positive size, not {}", size);
  }
  Dims sizes;
  if (length > 0) require_few_pieces((length - 1) / size + 1, args);
  for (std::int64_t left = length; left > 0; left -= sizes.back()) {
    sizes.push_back(std::min(size, left));
  }
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

Metas meta_split(const MetaArgs& args) {
  require_dims(args);
  const TensorMeta& self = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[2].to_int(), self.shape.size());
  const std::int64_t length = self.shape[index_of(dim)];
  Metas metas;
  std::int64_t sum = 0;
  for (const std::int64_t size : split_sizes(args, length)) {
    if (size < 0) fail(ErrorKind::kValue, "split takes no negative size: {}", size);
    metas.push_back({with_size(self, dim, size)});
    sum += std::min(size, std::numeric_limits<std::int64_t>::max() - sum);
  }
  if (sum != length) {
    fail(ErrorKind::kValue, "the sizes of a split of dim {} add up to {}, not {}", dim, sum,
         length);
  }
  return metas;
}

Metas meta_split_copy(const MetaArgs& args) {
  Metas metas = meta_split(args);
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

Metas meta_unbind(const MetaArgs& args) {
  require_dims(args);
  const TensorMeta& self = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[1].to_int(), self.shape.size());
  require_few_pieces(self.shape[index_of(dim)], args);
  return Metas(index_of(self.shape[index_of(dim)]), {remove_dims(self, Dims{dim})});
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
    throw Error(ErrorKind::kRuntime, fmt::format("unbind along dim {}, which is sharded", dim))
        .with("fix", "redistribute the input before unbind");
  }
  return without_dim(context, dim, context.outputs.size());
}

const char* keeps_input(const RuleContext& context, std::span<const Placements> inputs) {
  return inputs[0] == context.tensors[0]->placements() ? nullptr
                                                       : "unbind is a view: its input stays";
}

// cat(tensors, dim), stack(tensors, dim)

/// Tensors of shape [0] join anything, as they did before tensors could be empty in other ways.
bool joins_anything(const Dims& shape) { return shape.size() == 1 && shape[0] == 0; }

DType joined_dtype(std::span<const TensorMeta* const> tensors) {
  DType dtype = tensors[0]->dtype;
  for (const TensorMeta* tensor : tensors) dtype = promote(dtype, tensor->dtype);
  return dtype;
}

Metas meta_cat(const MetaArgs& args) {
  const auto tensors = args.tensors(0);
  if (tensors.empty()) fail(ErrorKind::kValue, "cat takes at least one tensor");
  TensorMeta result{{0}, {1}, joined_dtype(tensors)};
  bool first = true;
  for (const TensorMeta* tensor : tensors) {
    if (tensor->shape.empty()) fail(ErrorKind::kValue, "cat takes no tensors without dims");
    if (joins_anything(tensor->shape)) continue;
    if (first) {
      result.shape = tensor->shape;
      first = false;
      continue;
    }
    const std::size_t dim = index_of(wrap_dim(args[1].to_int(), result.shape.size()));
    Dims expected = tensor->shape;
    if (expected.size() == result.shape.size()) expected[dim] = result.shape[dim];
    if (!(expected == result.shape)) {
      fail(ErrorKind::kValue, "cat takes tensors that differ in dim {} only", dim);
    }
    result.shape[dim] += tensor->shape[dim];
  }
  wrap_dim(args[1].to_int(), result.shape.size());
  return {{contiguous_meta(result.shape, result.dtype)}};
}

Rows rule_cat(const RuleContext& context) {
  const std::size_t ndim = context.outputs[0].meta.shape.size();
  const std::int64_t dim = wrap_dim(context.schema.args[1].to_int(), ndim);
  const auto row_of = [&](RulePlacement placement) {
    RuleRow row = uniform_row(placement, 1, 0);
    for (const DTensorSpec* spec : context.schema.tensor_specs()) {
      row.inputs.push_back(joins_anything(spec->shape()) ? whole() : placement);
    }
    return row;
  };
  Rows rows;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(ndim); ++d) {
    if (d != dim) rows.push_back(row_of(any(d)));
  }
  for (const char letter : {'s', 'a', 'n', 'x'})
    rows.push_back(row_of(placement_of_letter(letter)));
  return rows;
}

Metas meta_stack(const MetaArgs& args) {
  const auto tensors = args.tensors(0);
  if (tensors.empty()) fail(ErrorKind::kValue, "stack takes at least one tensor");
  Dims shape = tensors[0]->shape;
  for (const TensorMeta* tensor : tensors) {
    if (!(tensor->shape == shape)) fail(ErrorKind::kValue, "stack takes tensors of one shape");
  }
  const std::int64_t dim = wrap_dim(args[1].to_int(), shape.size() + 1);
  shape.insert(index_of(dim), static_cast<std::int64_t>(tensors.size()));
  return {{contiguous_meta(shape, joined_dtype(tensors))}};
}

/// What two tensors agree on, on one mesh dim: a shard wins over a partial, a partial over a
/// replica; two shards or two partials that differ are gathered.
Placement merged(const Placement& current, const Placement& other) {
  if (current == other || other.is_replicate()) return current;
  if (current.is_replicate()) return other;
  if (current.is_partial() && other.is_shard()) return other;
  if (current.is_shard() && other.is_partial()) return current;
  return Placement::replicate();
}

/// Whether a pending reduction passes the conversion of every tensor to what they are joined in.
bool all_pass(const RuleContext& context, const Placement& pending) {
  return std::ranges::all_of(context.tensors, [&](const DTensorSpec* spec) {
    return passes_cast(pending, spec->dtype(), context.outputs[0].meta.dtype);
  });
}

/// All tensors follow one layout; dims from the new one on move up.
MeshRuleResult rule_stack(const RuleContext& context) {
  const std::vector<const DTensorSpec*> specs = context.schema.tensor_specs();
  const std::int64_t dim = wrap_dim(context.schema.args[1].to_int(), specs[0]->ndim() + 1);
  Placements common = specs[0]->placements();
  for (const DTensorSpec* spec : specs) {
    for (std::size_t m = 0; m < common.size(); ++m) {
      common[m] = merged(common[m], spec->placement(m));
    }
  }
  // Different kinds of pending reductions cannot be in one tensor: the later ones are
  // reduced.
  for (std::size_t m = 0; m < common.size(); ++m) {
    const auto clashes = [&](const Placement& p) {
      return p.is_partial() && common[m].is_partial() && !may_mix(p, common[m]);
    };
    if (std::any_of(common.begin(), common.begin() + m, clashes))
      common[m] = Placement::replicate();
    if (!all_pass(context, common[m])) common[m] = Placement::replicate();
  }
  Placements output = common;
  for (Placement& placement : output) {
    if (placement.is_shard() && placement.dim >= dim) ++placement.dim;
  }
  return {{std::move(output)}, std::vector<Placements>(specs.size(), common), {}, nullptr};
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

// roll(self, shifts, dims)
Metas meta_roll(const MetaArgs& args) {
  const std::size_t shifts = ints_of(args[1]).size(), dims = ints_of(args[2]).size();
  if (shifts == 0 || (dims != shifts && !(dims == 0 && shifts == 1))) {
    fail(ErrorKind::kValue, "roll: {} shifts for {} dims", shifts, dims);
  }
  if (dims > 0 && args.tensor(0)->shape.empty()) {
    fail(ErrorKind::kValue, "roll: a scalar has no dim to roll along");
  }
  return meta_self(args);
}

// What leaves a dim at one end comes back at the other.
DTensor rolled(Calls& calls, const DTensor& x, std::int64_t shift, std::int64_t dim) {
  const std::int64_t length = x.shape()[index_of(dim)];
  const std::int64_t moved = length == 0 ? 0 : ((shift % length) + length) % length;
  const auto part = [&](std::int64_t from, std::int64_t to) {
    return calls.one("slice.Tensor", {x, dim, from, to});
  };
  const ArgumentList parts{part(length - moved, length), part(0, length - moved)};
  return calls.one("cat", {parts, dim});
}

Results roll_locally(Calls& calls, const OpRow& row, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Dims shifts = ints_of(args[1]), dims = wrap_dims(ints_of(args[2]), x.ndim());
  DTensor result = x;
  if (dims.empty()) {
    const DTensor flat = reshape(calls, x, Dims{x.numel()});
    result = reshape(calls, rolled(calls, flat, shifts[0], 0), x.shape());
  }
  for (std::size_t i = 0; i < dims.size(); ++i) result = rolled(calls, result, shifts[i], dims[i]);
  if (row.out_variant()) calls("copy_", {args.back(), result});
  return {Argument(std::move(result))};
}

struct SelectRow {
  const char* schema;
  MetaFn meta;
  ShardingRule rule;
  KernelId kernel;
  ViewFn view;
  int static_argnum;
  Variants variants;
  const char* why;
  std::uint32_t flags = 0;
  int shape_argument = -1;
  MeshFilterFn filter = nullptr;
  bool looks_into_lists = false;
  LocalFn local = nullptr;
};

constexpr KernelId kNoKernel = KernelId::kNone;

// Sorted by name.
// clang-format off
const SelectRow kRows[] = {
    {"cat(Tensor[] tensors, int dim=0) -> Tensor",
     meta_cat, rule_cat, KernelId::kCat, nullptr, 1, {false, "out"},
     "positions along the dim are global", 0, -1, nullptr, true},
    {"diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     meta_self, rule_diagonal_scatter, kNoKernel, nullptr, 1, {false, "out"},
     "both dims of the diagonal stay whole"},
    {"flip(Tensor self, int[] dims) -> Tensor",
     meta_self, rule_other_dims<1>, KernelId::kFlip, nullptr, 1, {false, "out"},
     "a flipped dim crosses ranks"},
    {"roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
     meta_roll, rule_other_dims<2>, kNoKernel, nullptr, 1, {false, "out"},
     "a rolled dim crosses ranks", 0, -1, nullptr, false, roll_locally},
    {"select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
     meta_select, rule_select, kNoKernel, view_select, 1, {}, "the index is global", kAllowUneven},
    {"select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
     meta_select_backward, rule_select_backward, KernelId::kSelectBackward, nullptr, 1,
     {false, "out"}, "the index is global", kAllowUneven, 1},
    {"select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
     meta_self, rule_select_scatter, kNoKernel, nullptr, 1, {false, "out"}, "the index is global",
     0},
    {"slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
     "step=1) -> Tensor(a)",
     meta_slice, rule_slice, kNoKernel, view_slice, 1, {}, "bounds are global", kAllowUneven},
    {"slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, "
     "SymInt step) -> Tensor",
     meta_slice_backward, rule_slice_backward, KernelId::kSliceBackward, nullptr, 1, {false, "out"},
     "bounds are global", kAllowUneven, 1},
    {"slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
     "SymInt step=1) -> Tensor",
     meta_self, rule_slice_scatter, kNoKernel, nullptr, 2, {false, "out"}, "bounds are global",
     kAllowUneven},
    {"split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
     meta_split, rule_split, kNoKernel, view_split, 1, {}, "bounds are global"},
    {"split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
     meta_split, rule_split, kNoKernel, view_split, 1, {}, "bounds are global"},
    {"split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     meta_split_copy, rule_split, kNoKernel, nullptr, 1, {}, "bounds are global"},
    {"stack(Tensor[] tensors, int dim=0) -> Tensor",
     meta_stack, rule_stack, KernelId::kStack, nullptr, 1, {}, "all tensors follow one layout", 0,
     -1, nullptr, true},
    {"unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
     meta_unbind, rule_unbind, kNoKernel, view_unbind, 1, {}, "a view that never moves data",
     kAllowUneven, -1, keeps_input},
};
// clang-format on

}  // namespace

void register_select(OpRegistry& registry) {
  for (const SelectRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = entry.rule;
    row.filter = entry.filter;
    row.info.static_argnum = entry.static_argnum;
    row.info.needs_pytree = entry.looks_into_lists;
    row.kernel = entry.kernel;
    row.local = entry.local;
    row.view = entry.view;
    row.flags = entry.flags | kExact;
    row.shape_argument = entry.shape_argument;
    row.why = entry.why;
    add_with_variants(registry, std::move(row), entry.variants);
  }
}

}  // namespace shardlab
