// Reading and writing at positions that a tensor of indices holds. Indexed dims stay whole, because
// indices count over the whole tensor, except where a mask can mark the positions of other ranks.
#include <algorithm>
#include <limits>

#include "kernels/scatter_reduction.h"
#include "ops/family.h"
#include "ops/index/indexing.h"
#include "ops/index/scatter_reduce.h"

namespace shardlab {
namespace {

using namespace grad;

using Rows = std::vector<RuleRow>;

std::int64_t dim_argument(const RuleContext& context) {
  return wrap_dim(context.schema.args[1].to_int(), context.tensors[0]->ndim());
}

void require_index(const TensorMeta& index) {
  // An index without elements names nothing, whatever its dtype.
  if (index.dtype != DType::kI64 && index.dtype != DType::kI32 && product(index.shape) > 0) {
    fail(Fix{"cast it: index.to(torch.int64)"}, "the dtype of an index must be i64 or i32, not {}",
         to_string(index.dtype));
  }
}

// An index element for each element: (self, dim, index, ..) where `addressed` has to be at least as
// long as the index in all dims but `free_dim`.
constexpr std::size_t kNoDim = std::numeric_limits<std::size_t>::max();
void check_index_fits(const MetaArgs& args, const TensorMeta& addressed, std::size_t free_dim) {
  const Dims& shape = addressed.shape;
  const Dims& index = args.tensor(2)->shape;
  if (product(index) == 0) return;
  const std::size_t ndim = std::max<std::size_t>(shape.size(), 1);
  if (std::max<std::size_t>(index.size(), 1) != ndim) {
    fail(Fix{"index.unsqueeze(-1) adds a dim, index.flatten() joins all"},
         "{} takes an index of {} dims, not {}", args.op().base, ndim, index.size());
  }
  for (std::size_t i = 0; i < std::min(shape.size(), index.size()); ++i) {
    if (i != free_dim && index[i] > shape[i]) {
      fail(Fix{fmt::format("narrow the index: index.narrow({}, 0, {})", i, shape[i])},
           "{}: in dim {} the index has size {}, the tensor {}; the index must not be longer",
           args.op().base, i, index[i], shape[i]);
    }
  }
  const bool too_long = shape.empty() && product(index) > 1 && free_dim == kNoDim;
  if (too_long) {
    fail(Fix{"give one index: index[:1]"},
         "{}: there are {} indices for a tensor without dims; there must be one", args.op().base,
         product(index));
  }
}

// gather(self, dim, index)

OutputMetas meta_gather(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const TensorMeta& index = *args.tensor(2);
  require_index(index);
  check_index_fits(args, self, index_of(wrap_dim(args[1].to_int(), self.shape.size())));
  return {{contiguous_meta(index.shape, self.dtype)}};
}

Rows rule_gather(const RuleContext& context) {
  const Dims& shape = context.tensors[0]->shape();
  const Dims& index = context.tensors[1]->shape();
  const std::int64_t dim = dim_argument(context);
  const bool has_dim = !shape.empty() && index_of(dim) < index.size();
  Rows rows;
  if (has_dim && index[index_of(dim)] == 1) {
    // One position each: the rank that owns it answers, the others are masked.
    const RulePlacement mask =
        RulePlacement::of(Placement::mask_partial(ReduceOp::kSum, intern_mask_shape(shape), dim));
    rows.push_back({{mask}, {plain_shard(dim), mask}});
  }
  if (has_dim) rows.push_back({{plain_shard(dim)}, {whole(), plain_shard(dim)}});
  if (shape.size() != index.size()) return rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    // Pieces of a dim of which the index sees the front only are other elements.
    const bool whole_dim = d != dim && shape[index_of(d)] == index[index_of(d)];
    if (whole_dim) rows.push_back(uniform_row(any(d), 1, 2));
  }
  return rows;
}

// scatter(self, dim, index, src or value), scatter_add

OutputMetas meta_scatter(const MetaArgs& args) {
  require_index(*args.tensor(2));
  wrap_dim(args[1].to_int(), args.tensor(0)->shape.size());
  return meta_contiguous(args);
}

OutputMetas meta_scatter_elements(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const OutputMetas metas = meta_scatter(args);
  check_index_fits(args, self, index_of(wrap_dim(args[1].to_int(), self.shape.size())));
  if (const TensorMeta* source = args.tensor(3)) check_index_fits(args, *source, kNoDim);
  check_argument_dtype(args, 3, 0);
  return metas;
}

/// Dims of equal size everywhere may be sharded together.
template <bool look_at_source>
Rows rule_scatter(const RuleContext& context) {
  const std::vector<const DTensorSpec*> specs = context.schema.tensor_specs();
  const Dims& shape = specs[0]->shape();
  const Dims& index = specs[1]->shape();
  Rows rows;
  if (shape.size() != index.size()) return rows;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<std::int64_t>(d) == dim_argument(context) || shape[d] != index[d]) continue;
    if (look_at_source && specs.size() > 2) {
      const Dims& source = specs[2]->shape();
      if (source.size() != index.size() || source[d] != index[d]) continue;
    }
    rows.push_back(uniform_row(any(static_cast<std::int64_t>(d)), 1, specs.size()));
  }
  return rows;
}

// index_select(self, dim, index), index_fill, index_reduce

OutputMetas meta_index_select(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const TensorMeta& index = *args.tensor(2);
  require_index(index);
  if (index.shape.size() > 1) {
    fail(Fix{"flatten it: index.flatten()"}, "index_select takes an index of one dim, not {}",
         index.shape.size());
  }
  Dims shape = self.shape;
  const std::size_t dim = index_of(wrap_dim(args[1].to_int(), shape.size()));
  if (!shape.empty()) {
    shape[dim] = product(index.shape);
  } else if (product(index.shape) != 1) {
    fail(Fix{"give one index, or a tensor of at least one dim"},
         "index_select: a tensor without dims has one element, and the index has {}",
         product(index.shape));
  }
  return {{contiguous_meta(shape, self.dtype)}};
}

Rows rule_index_select(const RuleContext& context) {
  const std::int64_t dim = dim_argument(context);
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (d != dim) rows.push_back({{any(d)}, {any(d), whole()}});
  }
  rows.push_back({{any(dim)}, {whole(), any(0)}});
  append_passing(rows, "sanx", 1, 1, 1);
  return rows;
}

/// Rows that shard a dim other than the indexed one; `source_follows`: the tensor after the index
/// is sharded alike, else it is whole.
Rows other_dims(const RuleContext& context, std::size_t tensors, bool source_follows) {
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (d == dim_argument(context)) continue;
    RuleRow row{{any(d)}, {any(d), whole()}};
    if (tensors == 3) row.inputs.push_back(source_follows ? any(d) : whole());
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The same number written on every rank stays itself under avg, max and min, not under sum.
Rows rule_index_fill(const RuleContext& context) {
  const bool value_is_tensor = context.schema.tensor_specs().size() == 3;
  Rows rows = other_dims(context, value_is_tensor ? 3 : 2, false);
  for (const char letter : std::string_view(value_is_tensor ? "sanx" : "axn")) {
    const RulePlacement partial = placement_of_letter(letter);
    RuleRow row{{partial}, {partial, whole()}};
    if (value_is_tensor) row.inputs.push_back(partial);
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows rule_index_reduce(const RuleContext& context) { return other_dims(context, 3, true); }

/// An index of one dim, and a value of one element.
OutputMetas meta_index_fill(const MetaArgs& args) {
  const TensorMeta* value = args.tensor(3);
  const std::size_t dims = args.tensor(2)->shape.size();
  if (dims > 1 || (value != nullptr && !value->shape.empty())) {
    fail(Fix{"give an index of one dim and a value without dims"},
         "{}: the index has {} dims and the value {}; they must have at most 1 and none",
         args.op().base, dims, value == nullptr ? 0 : value->shape.size());
  }
  return meta_scatter(args);
}

/// A value for each element of the index's slices.
DTensor slices_of(Calls& calls, const Arguments& args, const DTensor& index) {
  const DTensor& self = args[0].tensor();
  Dims shape = self.shape();
  if (!shape.empty()) shape[index_of(wrap_dim(args[1].to_int(), shape.size()))] = index.numel();
  if (args[3].is_tensor()) {
    const DTensor value = calls.one("_to_copy", {args[3], self.dtype()});
    return calls.one("expand", {value, shape});
  }
  return calls.one("new_full", {self, shape, args[3]});
}

Results index_fill_locally(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  const std::int64_t dim = wrap_dim(args[1].to_int(), self.ndim());
  const std::int64_t length = self.ndim() == 0 ? 1 : self.shape()[index_of(dim)];
  const Expression given(calls, calls.one("reshape", {args[2], Dims{args[2].tensor().numel()}}));
  const DTensor index = given.lt(0).choose(given.with("aten::add.Scalar", length), given);
  const DTensor values = slices_of(calls, args, index);
  return calls("scatter.src", {args[0], dim, beside(calls, index, dim, values), values});
}

void require_reduction(const MetaArgs& args) {
  const auto reduction =
      args[4].is_string() ? scatter_reduction_named(args[4].string()) : std::nullopt;
  const bool by_index = args.op().base.starts_with("aten::index_reduce");
  const bool adds = by_index && reduction == ScatterReduction::kSum;
  if (reduction && !adds) return;
  fail(Fix{by_index ? "write \"prod\", \"mean\", \"amax\" or \"amin\"; index_add adds"
                    : "write \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\""},
       "{}: there is no reduction {}", args.op().base, args[4].text());
}

OutputMetas meta_scatter_reduce(const MetaArgs& args) {
  require_reduction(args);
  if (args[4].string().starts_with("am")) require_order(args.op().base, args.tensor(0)->dtype);
  return meta_scatter_elements(args);
}

// index(self, indices), index_put(self, indices, values): one tensor or None per dim.

Indexing read_indices(const RuleContext& context) {
  std::vector<const TensorMeta*> metas;
  for (const Argument& index : context.schema.args[1].list()) {
    metas.push_back(index.is_none() ? nullptr : &index.spec()->meta());
  }
  return read_indices(context.schema.row->op, metas);
}

OutputMetas meta_index(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  refuse_masks(args.op(), args.tensors(1));
  check_indices(args.op(), args.tensors(1), self);
  const Indexing indexing = read_indices(args.op(), args.tensors(1));
  return {{contiguous_meta(indexing.result_shape(self.shape), self.dtype)}};
}

OutputMetas meta_index_put(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  check_indices(args.op(), args.tensors(1), self);
  const auto masks = [](const TensorMeta* index) { return index != nullptr && is_mask(*index); };
  if (std::ranges::any_of(args.tensors(1), masks)) return meta_contiguous(args);
  const Dims places = read_indices(args.op(), args.tensors(1)).result_shape(self.shape);
  const TensorMeta& values = *args.tensor(2);
  check_argument_dtype(args, 2, 0);
  const TensorMeta target = contiguous_meta(places, self.dtype);
  const TensorMeta* const both[] = {&target, &values};
  if (broadcast_shapes(args.op(), both) != places) {
    fail(Fix{fmt::format("give values of shape [{}], or 1 where they repeat",
                         text_of_list(places, ", "))},
         "{}: values of shape [{}] do not broadcast to the places [{}]", args.op().name(),
         text_of_list(values.shape, ", "), text_of_list(places, ", "));
  }
  return meta_contiguous(args);
}

/// Rows where the indices are sharded along dim `dim` of their common shape.
bool append_index_row(Rows& rows, const RuleContext& context, const Indexing& indexing,
                      std::size_t dim) {
  RuleRow row{{any(static_cast<std::int64_t>(dim) + indexing.insert_at())}, {whole()}};
  bool cuts = false;
  for (std::size_t i = 1; i < context.tensors.size(); ++i) {
    const Dims& shape = context.tensors[i]->shape();
    const std::size_t missing = indexing.broadcast.size() - shape.size();
    const bool follows = dim >= missing && shape[dim - missing] > 1;
    row.inputs.push_back(follows ? any(static_cast<std::int64_t>(dim - missing)) : whole());
    const std::int64_t size = dim >= missing ? shape[dim - missing] : 1;
    cuts = cuts || size != 1;
  }
  if (cuts) rows.push_back(std::move(row));
  return cuts;
}

Rows rule_index(const RuleContext& context) {
  const Indexing indexing = read_indices(context);
  const auto row_of = [&](RulePlacement output, RulePlacement self) {
    RuleRow row{{output}, {self}};
    row.inputs.resize(1 + indexing.indexed.size(), whole());
    return row;
  };
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (!indexing.is_indexed(d)) rows.push_back(row_of(any(indexing.output_dim(d)), any(d)));
  }
  for (std::size_t d = 0; d < indexing.broadcast.size(); ++d) {
    append_index_row(rows, context, indexing, d);
  }
  for (const char letter : {'s', 'a'}) {
    rows.push_back(row_of(placement_of_letter(letter), placement_of_letter(letter)));
  }
  return rows;
}

Rows rule_index_put(const RuleContext& context) {
  const Indexing indexing = read_indices(context);
  const std::vector<const DTensorSpec*> specs = context.schema.tensor_specs();
  const Dims& values = specs.back()->shape();
  const auto row_of = [&](RulePlacement self, RulePlacement value) {
    RuleRow row{{self}, {self}};
    row.inputs.resize(specs.size() - 1, whole());
    row.inputs.push_back(value);
    return row;
  };
  const auto result_ndim = ndim_of(context) - static_cast<std::int64_t>(indexing.indexed.size()) +
                           static_cast<std::int64_t>(indexing.broadcast.size());
  Rows rows;
  for (std::int64_t d = 0; d < ndim_of(context); ++d) {
    if (indexing.is_indexed(d)) continue;
    // Values align with the result at the right; where they are stretched they stay whole.
    const std::int64_t dim =
        indexing.output_dim(d) - (result_ndim - static_cast<std::int64_t>(values.size()));
    const bool follows = dim >= 0 && values[index_of(dim)] != 1;
    rows.push_back(row_of(any(d), follows ? any(dim) : whole()));
  }
  rows.push_back(row_of(placement_of_letter('s'), placement_of_letter('s')));
  return rows;
}

// index_add(self, dim, index, source, alpha)

OutputMetas meta_index_add(const MetaArgs& args) {
  const TensorMeta &self = *args.tensor(0), &index = *args.tensor(2), &source = *args.tensor(3);
  require_index(index);
  Dims shape = self.shape;
  if (!shape.empty()) {
    shape[index_of(wrap_dim(args[1].to_int(), shape.size()))] = product(index.shape);
  }
  const bool one = !self.shape.empty() || product(index.shape) == 1;
  if (index.shape.size() > 1 || shape != source.shape || !one) {
    fail(Fix{fmt::format("give a source of shape [{}]", text_of_list(shape, ", "))},
         "{}: the source has shape [{}], there are {} indices for dim {} of [{}]", args.op().base,
         text_of_list(source.shape, ", "), product(index.shape), args[1].to_int(),
         text_of_list(self.shape, ", "));
  }
  check_argument_dtype(args, 3, 0);
  return meta_contiguous(args);
}

OutputMetas meta_index_reduce(const MetaArgs& args) {
  require_reduction(args);
  return meta_index_add(args);
}

Results index_reduce_locally(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor places = beside(calls, args[2].tensor(), args[1].to_int(), args[3].tensor());
  return calls("scatter_reduce.two", {args[0], args[1], places, args[3], args[4], args[5]});
}

/// Linear in self and source together: both carry a pending sum, or neither.
Rows rule_index_add(const RuleContext& context) {
  const std::int64_t dim = dim_argument(context);
  const bool same_dims = context.tensors[0]->ndim() == context.tensors[2]->ndim();
  Rows rows;
  for (std::int64_t d = 0; same_dims && d < ndim_of(context); ++d) {
    if (d != dim) rows.push_back({{any(d)}, {any(d), whole(), any(d)}});
  }
  for (const char letter : {'s', 'a'}) {
    const RulePlacement pending = placement_of_letter(letter);
    rows.push_back({{pending}, {pending, whole(), pending}});
  }
  return rows;
}

Results index_add_locally(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  const std::int64_t dim = args[1].to_int();
  DTensor source = args[3].tensor();
  if (args[4].scalar() != Scalar(1)) source = calls.one("aten::mul.Scalar", {source, args[4]});
  const DTensor places = beside(calls, args[2].tensor(), dim, source);
  return calls("aten::scatter_add", {self, dim, places, source});
}

Gradients grad_index_add(const GradContext& context) {
  Calls& calls = context.calls;
  return each_of(context, 3, [&](std::size_t i) {
    if (i == 0) return context.grads[0];
    const DTensor chosen =
        calls.one("aten::index_select", {context.grads[0], context.inputs[1], input(context, 2)});
    const DTensor shaped = calls.one("aten::reshape", {chosen, input(context, 3).shape()});
    return times(calls, shaped, context.inputs[4].scalar());
  });
}

/// index_fill(self, dim, index, value)
Gradients grad_index_fill(const GradContext& context) {
  const auto filled = [&](const DTensor& x, std::int64_t value) {
    return context.calls.one("aten::index_fill.int_Scalar",
                             {x, context.inputs[1], context.inputs[2], value});
  };
  return each_of(context, context.inputs[3].is_tensor() ? 3 : 2, [&](std::size_t i) -> DTensor {
    if (i == 0) return filled(context.grads[0], 0);
    // A place that the index names twice was filled once.
    const Expression ones(context.calls, filled(zeros_like(context.calls, context.grads[0]), 1));
    return flowing(context).filled(ones.eq(0), 0).of("aten::sum");
  });
}

Gradients grad_gather(const GradContext& context) {
  return chosen(context, context.inputs[1], context.grads[0], input(context, 2));
}

Gradients grad_index(const GradContext& context) {
  const DTensor& gradient = context.grads[0];
  const DTensor zeros = context.calls.one("aten::new_zeros", {gradient, input(context, 0).shape()});
  return {context.calls.one("aten::index_put", {zeros, context.inputs[1], gradient, true})};
}

// A position that is given twice passes its gradient to both values, as in the reference.
Gradients grad_index_put(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  const Argument& indices = context.inputs[1];
  const std::size_t last = 1 + indices.list().size();
  const DTensor& values = input(context, 2);
  Gradients gradients(last + 1);
  if (context.needs(0)) {
    const bool adds = context.inputs[3].to_bool();
    gradients[0] =
        adds ? gradient
             : calls.one("aten::index_put",
                         {gradient, indices, calls.one("aten::zeros_like", {values}), false});
  }
  if (context.needs(last)) {
    gradients[last] = sum_to(calls, calls.one("aten::index.Tensor", {gradient, indices}), values);
  }
  return gradients;
}

Gradients grad_index_select(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  const DTensor positions = beside(calls, input(context, 2), context.inputs[1].to_int(), gradient);
  const DTensor zeros = calls.one("aten::new_zeros", {gradient, input(context, 0).shape()});
  return {calls.one("aten::scatter_add", {zeros, context.inputs[1], positions, gradient})};
}

// Overwritten values pass no gradient on.
Gradients grad_scatter(const GradContext& context) {
  return each_of(context, context.inputs[3].is_tensor() ? 3 : 2, [&](std::size_t i) {
    Arguments args{context.grads[0], context.inputs[1], input(context, 2)};
    if (i > 0) return context.calls.one("aten::gather", std::move(args));
    args.emplace_back(0);
    return context.calls.one("aten::scatter.value", std::move(args));
  });
}

Gradients grad_scatter_add(const GradContext& context) {
  return each_of(context, 3, [&](std::size_t i) {
    if (i == 0) return context.grads[0];
    return context.calls.one("aten::gather",
                             {context.grads[0], context.inputs[1], input(context, 2)});
  });
}

// Sorted by name.
// clang-format off
constexpr Row kIndexRows[] = {
    {"gather"_op, meta_gather, rule_gather,
     MaskedLookup{KernelId::kGather, KernelId::kGatherMasked}, {grad_gather, "self index"},
     "a mask says which rank owns a position", kNeedsPosition | kExact, {1}},
    {"index.Tensor"_op, meta_index, rule_index, index_locally, {grad_index, "indices"},
     "indices count over the whole dim", kExact},
    {"index_add"_op, meta_index_add, rule_index_add, index_add_locally,
     {grad_index_add, "index:source source:source"},
     "linear in both; indices count over the whole dim", 0, {1}},
    {"index_fill.int_Scalar"_op, meta_index_fill, rule_index_fill, index_fill_locally,
     {grad_index_fill, "index"}, "indices count over the whole dim", 0, {1}},
    {"index_fill.int_Tensor"_op, meta_index_fill, rule_index_fill, index_fill_locally,
     {grad_index_fill, "index"}, "indices count over the whole dim", 0, {1}},
    {"index_put"_op, meta_index_put, rule_index_put, index_put_locally, {grad_index_put, "indices"},
     "indices count over the whole dim"},
    {"index_reduce"_op, meta_index_reduce, rule_index_reduce, index_reduce_locally,
     {grad_index_reduce, "self index source result"}, "indices count over the whole dim", 0, {1}},
    {"index_select"_op, meta_index_select, rule_index_select, KernelId::kIndexSelect,
     {grad_index_select, "index"}, "indices count over the whole dim", kExact, {1}},
    {"scatter.src"_op, meta_scatter_elements, rule_scatter<true>, KernelId::kScatter,
     {grad_scatter, "index"}, "indices count over the whole dim", 0, {1}},
    {"scatter.value"_op, meta_scatter_elements, rule_scatter<true>, KernelId::kScatter,
     {grad_scatter, "index"}, "indices count over the whole dim", 0, {1}},
    {"scatter_add"_op, meta_scatter_elements, rule_scatter<false>, KernelId::kScatterAdd,
     {grad_scatter_add, "index:src"}, "indices count over the whole dim", kSumsLinearly, {1}},
    {"scatter_reduce.two"_op, meta_scatter_reduce, rule_scatter<true>, KernelId::kScatterReduce,
     {grad_scatter_reduce, "self index src result"}, "indices count over the whole dim", 0, {1}},
};
// clang-format on

}  // namespace

void register_index(OpRegistry& registry) { add_rows(registry, kIndexRows); }

}  // namespace shardlab
