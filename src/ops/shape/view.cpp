// Ops that only see memory differently. Their placements follow from a map of the result's dims
// onto the input's (view_map.h), and each rank applies the same op to its piece: with the shape of
// its own piece where the op names one (K-30), and with the removed dims where it does not name
// them, because a piece can have size 1 where the whole has not. Whether an op may move data is a
// column: view refuses cases for which reshape gathers.
#include <algorithm>
#include <optional>

#include "base/saturating.h"
#include "ops/family.h"
#include "ops/shape/as_strided.h"
#include "ops/shape/view_map.h"
#include "schema/older_schema.h"

namespace shardlab {
namespace {

using namespace grad;

// Shapes. Argument 0 is the tensor, argument 1 the sizes or dims.

OutputMetas meta_view(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Dims shape = infer_sizes(ints_of(args[1]), product(self.shape));
  const std::optional<Dims> strides = view_strides(self, shape);
  if (!strides) {
    fail(Fix{"use reshape, which copies where it must"},
         "the strides [{}] do not allow a view of shape [{}]", text_of_list(self.stride, ", "),
         text_of_list(shape, ", "));
  }
  return {{{shape, *strides, self.dtype}}};
}

OutputMetas meta_reshape(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Dims shape = infer_sizes(ints_of(args[1]), product(self.shape));
  const std::optional<Dims> strides = view_strides(self, shape);
  return {{{shape, strides ? *strides : contiguous_strides(shape), self.dtype}}};
}

OutputMetas meta_view_copy(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  return {{contiguous_meta(infer_sizes(ints_of(args[1]), product(self.shape)), self.dtype)}};
}

OutputMetas meta_expand(const MetaArgs& args) {
  return {{expand_meta(*args.tensor(0), ints_of(args[1]))}};
}

OutputMetas meta_expand_copy(const MetaArgs& args) {
  const TensorMeta expanded = expand_meta(*args.tensor(0), ints_of(args[1]));
  return {{contiguous_meta(expanded.shape, expanded.dtype)}};
}

OutputMetas meta_permute(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  return {{permute_meta(self, wrap_dims(ints_of(args[1]), self.shape.size()))}};
}

/// The identity with dims `a` and `b` exchanged.
Dims exchanged(std::size_t ndim, std::int64_t a, std::int64_t b) {
  Dims dims;
  for (std::size_t i = 0; i < ndim; ++i) dims.push_back(static_cast<std::int64_t>(i));
  if (ndim > 0) std::swap(dims[index_of(a)], dims[index_of(b)]);
  return dims;
}

Dims transposed_dims(std::size_t ndim, const Argument& dim0, const Argument& dim1) {
  return exchanged(ndim, wrap_dim(dim0.to_int(), ndim), wrap_dim(dim1.to_int(), ndim));
}

OutputMetas meta_transpose(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  return {{permute_meta(self, transposed_dims(self.shape.size(), args[1], args[2]))}};
}

OutputMetas meta_t(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  if (self.shape.size() > 2) {
    fail(Fix{"use transpose(0, 1), or mT for the last two dims"},
         "t takes a tensor of at most 2 dims, not {}", self.shape.size());
  }
  return {{permute_meta(self, exchanged(self.shape.size(), 0, self.shape.size() == 2 ? 1 : 0))}};
}

/// The dims that a squeeze removes: those of size 1 among `dims`, or among all when it is null.
Dims squeezed_dims(const Dims& shape, const Argument* dims) {
  Dims wanted;
  if (dims != nullptr) {
    wanted = wrap_dims(ints_of(*dims), shape.size());
  } else {
    for (std::size_t i = 0; i < shape.size(); ++i) wanted.push_back(static_cast<std::int64_t>(i));
  }
  Dims removed;
  for (const std::int64_t dim : wanted) {
    if (!shape.empty() && shape[index_of(dim)] == 1) removed.push_back(dim);
  }
  return removed;
}

OutputMetas meta_squeeze(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  return {{remove_dims(self, squeezed_dims(self.shape, args.size() > 1 ? &args[1] : nullptr))}};
}

OutputMetas meta_unsqueeze(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  return {{unsqueeze_meta(self, wrap_dim(args[1].to_int(), self.shape.size() + 1))}};
}

OutputMetas meta_repeat(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  Dims shape = ints_of(args[1]);
  if (shape.size() < self.shape.size()) {
    fail(Fix{"give one count per dim; 1 leaves a dim as it is"},
         "repeat: there are {} counts for a tensor of {} dims; there must be at least one per dim",
         shape.size(), self.shape.size());
  }
  const std::size_t pad = shape.size() - self.shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      fail(Fix{"1 leaves a dim as it is"},
           "repeat: the count of dim {} is {}; it must be 0 or more", i, shape[i]);
    }
    if (i >= pad) shape[i] = saturating_product(shape[i], self.shape[i - pad]);
  }
  return {{contiguous_meta(shape, self.dtype)}};
}

OutputMetas meta_view_as_real(const MetaArgs& args) {
  TensorMeta result = *args.tensor(0);
  if (!is_complex(result.dtype)) {
    fail(Fix{"leave it out: the tensor is real"}, "view_as_real takes complex tensors, not {}",
         to_string(result.dtype));
  }
  for (std::int64_t& stride : result.stride) stride *= 2;
  result.shape.push_back(2);
  result.stride.push_back(1);
  result.dtype = real_dtype(result.dtype);
  return {{result}};
}

OutputMetas meta_view_as_complex(const MetaArgs& args) {
  TensorMeta result = *args.tensor(0);
  if (result.shape.empty() || result.shape.back() != 2 || result.stride.back() != 1) {
    fail(Fix{"put the two parts last: x.reshape(..., 2).contiguous()"},
         "view_as_complex takes a last dim of size 2 and stride 1");
  }
  result.shape.pop_back();
  result.stride.pop_back();
  for (std::int64_t& stride : result.stride) {
    if (stride % 2 != 0) {
      fail(Fix{"make it contiguous first: x.contiguous()"},
           "view_as_complex takes even strides only");
    }
    stride /= 2;
  }
  if (result.dtype != DType::kF32 && result.dtype != DType::kF64) {
    fail(Fix{"cast it first: x.float()"}, "view_as_complex takes f32 or f64, not {}",
         to_string(result.dtype));
  }
  result.dtype = result.dtype == DType::kF64 ? DType::kC128 : DType::kC64;
  return {{result}};
}

OutputMetas meta_alias(const MetaArgs& args) { return {{*args.tensor(0)}}; }

/// The bytes under another dtype: the last dim stretches or shrinks with the size of an element.
OutputMetas meta_view_dtype(const MetaArgs& args) {
  TensorMeta result = *args.tensor(0);
  const std::int64_t from = item_bytes(result.dtype), to = item_bytes(args[1].dtype());
  result.dtype = args[1].dtype();
  if (from == to) return {{result}};
  const bool even =
      !result.shape.empty() && result.stride.back() == 1 && (result.shape.back() * from) % to == 0;
  if (!even) {
    fail(Fix{"make it contiguous first, or cast with to(dtype)"},
         "a view as {} needs a last dim of stride 1 whose bytes divide by {}",
         to_string(result.dtype), to);
  }
  result.shape.back() = result.shape.back() * from / to;
  for (std::size_t i = 0; i + 1 < result.stride.size(); ++i) {
    if ((result.stride[i] * from) % to != 0) {
      fail(Fix{"make it contiguous first, or cast with to(dtype)"},
           "a view as {} needs strides whose bytes divide by {}", to_string(result.dtype), to);
    }
    result.stride[i] = result.stride[i] * from / to;
  }
  return {{result}};
}

// Rules.

MeshRuleResult apply_map(const RuleContext& context, const ViewMap& map, ViewPolicy policy) {
  const DTensorSpec& self = *context.tensors[0];
  ViewPlacements placements =
      propagate_view(self.placements(), self.shape(), map, self.layout()->shape(), policy);
  return {{std::move(placements.outputs)}, {std::move(placements.inputs)}, {}, nullptr};
}

/// Argument 1 is the output's shape: ranks pass the shape of their piece.
MeshRuleResult with_local_shape(MeshRuleResult result) {
  if (std::ranges::any_of(result.outputs[0], [](const Placement& p) { return p.is_shard(); })) {
    result.adapted = {{1, AdaptedArgument::Token::kLocalShapeOfOutput, 0, 0, {}}};
  }
  return result;
}

template <ViewPolicy policy>
MeshRuleResult rule_reshape(const RuleContext& context) {
  const ViewMap map = map_reshape(context.tensors[0]->shape(), context.outputs[0].meta.shape);
  return with_local_shape(apply_map(context, map, policy));
}

MeshRuleResult rule_expand(const RuleContext& context) {
  const ViewMap map = map_expand(context.tensors[0]->shape(), context.outputs[0].meta.shape);
  return with_local_shape(apply_map(context, map, ViewPolicy::kRedistribute));
}

MeshRuleResult rule_repeat(const RuleContext& context) {
  const ViewMap map = map_repeat(context.tensors[0]->ndim(), ints_of(context.schema.args[1]));
  return apply_map(context, map, ViewPolicy::kRedistribute);
}

MeshRuleResult rule_permute(const RuleContext& context) {
  const Dims dims = wrap_dims(ints_of(context.schema.args[1]), context.tensors[0]->ndim());
  return apply_map(context, map_permute(dims), ViewPolicy::kRedistribute);
}

/// Written in the types of the first generation, as users' older rules are: both dims change their
/// places in the placements, and nothing moves.
older::OutputSharding rule_transpose(const older::OpSchema& schema) {
  const DTensorSpec& self = *schema.args_spec()[0];
  const Dims dims = transposed_dims(self.ndim(), schema.args_schema[1], schema.args_schema[2]);
  Placements moved = self.placements();
  for (Placement& placement : moved) {
    if (placement.is_shard()) {
      placement.dim = static_cast<decltype(placement.dim)>(dims[index_of(placement.dim)]);
    }
  }
  return {self.with(moved), {}, std::nullopt};
}

MeshRuleResult rule_unsqueeze(const RuleContext& context) {
  const std::size_t ndim = context.tensors[0]->ndim();
  const std::int64_t position = wrap_dim(context.schema.args[1].to_int(), ndim + 1);
  return apply_map(context, map_unsqueeze(ndim, position), ViewPolicy::kRedistribute);
}

MeshRuleResult rule_view_as_real(const RuleContext& context) {
  return apply_map(context, map_view_as_real(context.tensors[0]->shape()),
                   ViewPolicy::kRedistribute);
}

/// A piece may have size 1 where the whole has not: ranks are given the dims to remove.
template <bool inplace>
MeshRuleResult rule_squeeze(const RuleContext& context) {
  const DTensorSpec& self = *context.tensors[0];
  const Arguments& args = context.schema.args;
  const Dims removed = squeezed_dims(self.shape(), args.size() > 1 ? &args[1] : nullptr);
  MeshRuleResult result = apply_map(context, map_remove(self.ndim(), removed), ViewPolicy::kStrict);
  result.local_op = inplace ? "aten::squeeze_.dims" : "aten::squeeze.dims";
  result.adapted = {{1, AdaptedArgument::Token::kValue, 0, 0, Argument(removed)}};
  return result;
}

/// Ops that leave shape and values alone.
std::vector<RuleRow> rule_alias(const RuleContext& context) {
  std::vector<RuleRow> rows = shard_all_dims_but(context, -1, 1);
  append_passing(rows, "sanx", 1, 1);
  return rows;
}

/// Elements of another size differ in number: a dim that is cut evenly before and after is cut
/// between the same bytes.
const char* cut_between_bytes(const RuleContext& context, std::span<const Placements> inputs) {
  const DTensorSpec& self = *context.tensors[0];
  const TensorMeta& viewed = context.outputs[0].meta;
  if (self.ndim() == 0 || item_bytes(self.dtype()) == item_bytes(viewed.dtype)) return nullptr;
  std::int64_t pieces = 1;
  for (std::size_t m = 0; m < inputs[0].size(); ++m) {
    const Placement& placement = inputs[0][m];
    if (!placement.is_shard(static_cast<std::int64_t>(self.ndim()) - 1)) continue;
    pieces *= self.layout()->shape()[m];
    if (placement.is_strided_shard()) pieces *= placement.split_factor;
  }
  const bool even = self.shape().back() % pieces == 0 && viewed.shape.back() % pieces == 0;
  return even ? nullptr : "elements of another size would be cut between other bytes";
}

std::vector<RuleRow> rule_t(const RuleContext& context) {
  std::vector<RuleRow> rows;
  const auto ndim = static_cast<std::int64_t>(context.tensors[0]->ndim());
  for (std::int64_t dim = 0; dim < ndim; ++dim) {
    rows.push_back({{RulePlacement::any(ndim - 1 - dim)}, {RulePlacement::any(dim)}});
  }
  append_passing(rows, "saxn", 1, 1);
  return rows;
}

/// Complex numbers have no order: max and min do not pass.
std::vector<RuleRow> rule_view_as_complex(const RuleContext& context) {
  const auto last = static_cast<std::int64_t>(context.tensors[0]->ndim()) - 1;
  std::vector<RuleRow> rows = shard_all_dims_but(context, last, 1);
  append_passing(rows, "sa", 1, 1);
  return rows;
}

/// Local views that start where their base starts. Offsets count elements of the result's dtype.
template <MetaFn meta>
ViewResults view_in_place(const Tensor& base, const MetaArgs& args) {
  ViewResults results;
  for (const OutputMeta& output : meta(args)) {
    const std::int64_t bytes = base.offset() * item_bytes(base.dtype());
    const std::int64_t item = item_bytes(output.meta.dtype);
    if (bytes % item != 0) {
      fail(Fix{"clone() the tensor first, or cast with to(dtype)"},
           "a view as {} cannot start {} bytes into the storage", to_string(output.meta.dtype),
           bytes);
    }
    results.push_back({output.meta, bytes / item});
  }
  return results;
}

// Whether a squeeze names tensor dim `dim`: all of them (no dim argument), one, or a list.
bool removes(const GradContext& context, std::size_t dim) {
  if (context.inputs.size() < 2) return true;
  const std::size_t ndim = input(context, 0).ndim();
  const auto same = [&](std::int64_t named) {
    return wrap_dim(named, ndim) == static_cast<std::int64_t>(dim);
  };
  if (!context.inputs[1].is_ints()) return same(context.inputs[1].to_int());
  for (const std::int64_t named : context.inputs[1].ints()) {
    if (same(named)) return true;
  }
  return false;
}

// A gradient laid out like the result takes the way of the value back; another layout may not be
// viewable, so it uses the row that gathers where it must.
Gradients grad_reshape(const GradContext& context) {
  const DTensor& gradient = context.grads[0];
  const DTensor& result = context.outputs[0].tensor();
  const bool same = !gradient.distributed() ||
                    gradient.spec()->placements() == result.spec()->placements() ||
                    !gradient.spec()->is_sharded();
  return {context.calls.one(same ? "aten::reshape" : "aten::view_copy",
                            {gradient, input(context, 0).shape()})};
}

Gradients grad_expand(const GradContext& context) {
  return {sum_to(context.calls, context.grads[0], input(context, 0))};
}

// The sum of all repetitions: of separate dims before each dim of the input.
Gradients grad_repeat(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& self = input(context, 0);
  const Dims& repeats = context.inputs[1].ints();
  const std::size_t pad = repeats.size() - self.ndim();
  Dims sizes, summed, repeated;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    const bool apart = i < pad || repeats[i] != 1;
    if (apart && i >= pad) repeated.push_back(static_cast<std::int64_t>(i));
    if (apart) summed.push_back(static_cast<std::int64_t>(sizes.size()));
    if (apart) sizes.push_back(repeats[i]);
    if (i >= pad) sizes.push_back(self.shape()[i - pad]);
  }
  if (summed.empty()) return {context.grads[0]};
  const DTensor whole = gathered(calls, context.grads[0], repeated);
  const DTensor apart = calls.one("aten::reshape", {whole, sizes});
  return {calls.one("aten::sum.dim_IntList", {apart, summed, false})};
}

Gradients grad_permute(const GradContext& context) {
  const Dims& dims = context.inputs[1].ints();
  const Dims inverse = inverse_of(wrap_dims(dims, dims.size()));
  return {context.calls.one("aten::permute", {context.grads[0], inverse})};
}

// Puts the removed dims back one by one, which keeps the placements of the others. Only named dims
// of size 1 are removed.
Gradients grad_squeeze(const GradContext& context) {
  DTensor gradient = context.grads[0];
  const Dims& shape = input(context, 0).shape();
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] != 1 || !removes(context, dim)) continue;
    gradient = context.calls.one("aten::unsqueeze", {gradient, static_cast<std::int64_t>(dim)});
  }
  return {gradient};
}

Gradients grad_unsqueeze(const GradContext& context) {
  const std::int64_t dim = wrap_dim(context.inputs[1].to_int(), context.grads[0].ndim());
  const DTensor gradient = gathered(context.calls, context.grads[0], Dims{dim});
  return {context.calls.one("aten::squeeze.dim", {gradient, dim})};
}

// Pairs are next to each other only in some layouts.
Gradients grad_view_as_real(const GradContext& context) {
  Calls& calls = context.calls;
  const auto last = static_cast<std::int64_t>(context.grads[0].ndim()) - 1;
  const DTensor pairs = gathered(calls, context.grads[0], Dims{last});
  return {calls.one("aten::view_as_complex", {calls.one("aten::contiguous", {pairs})})};
}
constexpr ViewPolicy kStrict = ViewPolicy::kStrict, kGather = ViewPolicy::kRedistribute;

// Sorted by name.
// clang-format off
constexpr Row kViewRows[] = {
    {"_unsafe_view"_op, meta_view, rule_reshape<kStrict>, view_in_place<meta_view>,
     {grad_reshape, "~result"}, "a view of a temporary", 0, {1}},
    {"alias"_op, meta_alias, rule_alias, view_in_place<meta_alias>, {grad_pass, ""},
     "the same tensor", kAllowUneven},
    {"as_strided"_op, meta_as_strided, rule_as_strided, view_as_strided, {grad_as_strided, ""},
     "a permutation of pieces, or nothing", 0, {1}},
    {"contiguous"_op, meta_contiguous, rule_alias, decompose_contiguous, {},
     "a copy where it has to be", kAllowUneven},
    {"detach"_op, meta_alias, rule_alias, view_in_place<meta_alias>, {}, "the same tensor",
     kAllowUneven | kNotDifferentiable},
    {"detach_"_op, meta_alias, rule_alias, view_in_place<meta_alias>, {}, "the same tensor",
     kAllowUneven | kNotDifferentiable},
    {"expand"_op, meta_expand, rule_expand, view_in_place<meta_expand>, {grad_expand, ""},
     "a stretched dim is whole anywhere", 0, {1}},
    {"expand_copy"_op, meta_expand_copy, rule_expand, KernelId::kConvert, {grad_expand, ""},
     "as expand", 0, {1}},
    {"permute"_op, meta_permute, rule_permute, view_in_place<meta_permute>, {grad_permute, ""},
     "shards follow their dim", 0, {1}},
    {"prims::view_of"_op, meta_alias, rule_alias, view_in_place<meta_alias>, {}, "the same tensor",
     kAllowUneven},
    {"repeat"_op, meta_repeat, rule_repeat, KernelId::kRepeat, {grad_repeat, ""},
     "a repeated dim starts over on every rank", 0, {1}},
    {"reshape"_op, meta_reshape, rule_reshape<kGather>, decompose_reshape,
     {grad_reshape, "~result"}, "may copy, so it may gather too", 0, {1}},
    {"squeeze"_op, meta_squeeze, rule_squeeze<false>, view_in_place<meta_squeeze>,
     {grad_squeeze, ""}, "dims of global size 1"},
    {"squeeze.dim"_op, meta_squeeze, rule_squeeze<false>, view_in_place<meta_squeeze>,
     {grad_squeeze, ""}, "a dim of global size 1", 0, {1}},
    {"squeeze.dims"_op, meta_squeeze, rule_squeeze<false>, view_in_place<meta_squeeze>,
     {grad_squeeze, ""}, "what all squeezes run locally", 0, {1}},
    {"squeeze_"_op, meta_squeeze, rule_squeeze<true>, view_in_place<meta_squeeze>,
     {grad_squeeze, ""}, "the handle's spec changes"},
    {"squeeze_.dim"_op, meta_squeeze, rule_squeeze<true>, view_in_place<meta_squeeze>,
     {grad_squeeze, ""}, "the handle's spec changes", 0, {1}},
    {"squeeze_.dims"_op, meta_squeeze, rule_squeeze<true>, view_in_place<meta_squeeze>,
     {grad_squeeze, ""}, "the handle's spec changes", 0, {1}},
    {"t"_op, meta_t, rule_t, view_in_place<meta_t>, {grad_by<"t">, ""}, "exchanges both dims"},
    {"t_"_op, meta_t, rule_t, view_in_place<meta_t>, {grad_by<"t">, ""},
     "keeps its placements, so no dim may be cut"},
    {"transpose.int"_op, meta_transpose, older::run<rule_transpose>, view_in_place<meta_transpose>,
     {grad_by<"transpose.int", 1, 2>, ""}, "shards follow their dim", 0, {1}},
    {"transpose_"_op, meta_transpose, older::run<rule_transpose>, view_in_place<meta_transpose>,
     {grad_by<"transpose.int", 1, 2>, ""}, "the handle's spec changes", 0, {1}},
    {"unsqueeze"_op, meta_unsqueeze, rule_unsqueeze, view_in_place<meta_unsqueeze>,
     {grad_unsqueeze, ""}, "later dims move up by one", 0, {1}},
    {"unsqueeze_"_op, meta_unsqueeze, rule_unsqueeze, view_in_place<meta_unsqueeze>,
     {grad_unsqueeze, ""}, "the handle's spec changes", 0, {1}},
    {"view"_op, meta_view, rule_reshape<kStrict>, view_in_place<meta_view>,
     {grad_reshape, "~result"}, "never moves data", 0, {1}},
    {"view.dtype"_op, meta_view_dtype, rule_alias, view_in_place<meta_view_dtype>, {},
     "the bytes of a piece are its own", kAllowUneven, {}, cut_between_bytes},
    {"view_as_complex"_op, meta_view_as_complex, rule_view_as_complex,
     view_in_place<meta_view_as_complex>, {grad_by<"view_as_real">, ""},
     "a pair must stay together"},
    {"view_as_real"_op, meta_view_as_real, rule_view_as_real, view_in_place<meta_view_as_real>,
     {grad_view_as_real, ""}, "adds the pair as a last dim"},
    {"view_copy"_op, meta_view_copy, rule_reshape<kGather>, KernelId::kReshapeCopy,
     {grad_reshape, "~result"}, "as reshape", 0, {1}},
};
// clang-format on

}  // namespace

void register_view(OpRegistry& registry) { add_rows(registry, kViewRows, kExact); }

}  // namespace shardlab
