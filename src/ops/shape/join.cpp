// Joining tensors along an existing dim (cat) or a new one (stack). The dim must be whole on
// every rank, since its positions count over the whole tensor; all others may be sharded, and
// partials pass, since values are only moved.
#include <algorithm>
#include <array>

#include "mesh/type_string.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

using Rows = std::vector<RuleRow>;

/// Tensors of shape [0] join anything, as they did before tensors could be empty in other ways.
bool joins_anything(const Dims& shape) { return shape.size() == 1 && shape[0] == 0; }

DType joined_dtype(std::span<const TensorMeta* const> tensors) {
  DType dtype = tensors[0]->dtype;
  for (const TensorMeta* tensor : tensors) dtype = promote(dtype, tensor->dtype);
  return dtype;
}

OutputMetas meta_cat(const MetaArgs& args) {
  const auto tensors = args.tensors(0);
  if (tensors.empty()) {
    fail(Fix{"give a list of tensors: cat([x, y])"}, "cat takes at least one tensor");
  }
  TensorMeta result{{0}, {1}, joined_dtype(tensors)};
  bool first = true;
  for (const TensorMeta* tensor : tensors) {
    if (tensor->shape.empty()) {
      fail(Fix{"use stack, or give it a dim: x.unsqueeze(0)"},
           "cat takes tensors of at least one dim, not 0");
    }
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
      fail(Fix{"join along the dim in which they differ, or narrow them first"},
           "cat takes tensors that differ in dim {} only, not {} and {}", dim, type_string(result),
           type_string(*tensor));
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

OutputMetas meta_stack(const MetaArgs& args) {
  const auto tensors = args.tensors(0);
  if (tensors.empty()) {
    fail(Fix{"give a list of tensors: stack([x, y])"}, "stack takes at least one tensor");
  }
  Dims shape = tensors[0]->shape;
  for (const TensorMeta* tensor : tensors) {
    if (!(tensor->shape == shape)) {
      fail(Fix{"use cat, or expand them to one shape"},
           "stack takes tensors of one shape, not {} and {}", type_string(*tensors[0]),
           type_string(*tensor));
    }
  }
  const std::int64_t dim = wrap_dim(args[1].to_int(), shape.size() + 1);
  shape.insert(index_of(dim), static_cast<std::int64_t>(tensors.size()));
  return {{contiguous_meta(shape, joined_dtype(tensors))}};
}

/// The common placement of two tensors on one mesh dim: a shard wins over a partial, a partial over
/// a replica; two shards or two partials that differ are gathered.
Placement merged(const Placement& current, const Placement& other) {
  if (current == other || other.is_replicate()) return current;
  if (current.is_replicate()) return other;
  if (current.is_partial() && other.is_shard()) return other;
  if (current.is_shard() && other.is_partial()) return current;
  return Placement::replicate();
}

/// Whether a pending reduction passes the conversion of every tensor to the dtype in which they are
/// joined.
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

DTensor slice_of(Calls& calls, const DTensor& x, std::int64_t dim, std::int64_t start,
                 std::int64_t size) {
  return calls.one("aten::slice.Tensor", {x, dim, start, start + size});
}

// constant_pad_nd(self, pad, value): pad counts from the last dim on, in front and behind; a
// negative count cuts off.

/// In front of and behind each dim.
std::vector<std::array<std::int64_t, 2>> padding_of(const Argument& pad, std::size_t ndim) {
  const Dims counts = ints_of(pad);
  if (counts.size() % 2 != 0 || counts.size() / 2 > ndim) {
    fail(Fix{"give two counts per dim, the last dim first: pad(x, [1, 1])"},
         "constant_pad_nd: there are {} counts for a tensor of {} dims", counts.size(), ndim);
  }
  std::vector<std::array<std::int64_t, 2>> padding(ndim);
  for (std::size_t i = 0; i < counts.size() / 2; ++i) {
    padding[ndim - 1 - i] = {counts[2 * i], counts[2 * i + 1]};
  }
  return padding;
}

OutputMetas meta_pad(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  Dims shape = self.shape;
  const auto padding = padding_of(args[1], shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto [front, behind] = padding[d];
    shape[d] += front + behind;
    // Elements that are cut off are the tensor's, not those that the other end adds.
    const std::int64_t kept =
        self.shape[d] + std::min<std::int64_t>(front, 0) + std::min<std::int64_t>(behind, 0);
    if (kept >= 0) continue;
    fail(Fix{"cut off no more than there is"},
         "constant_pad_nd: {} elements are cut off dim {} of size {}", self.shape[d] - kept, d,
         self.shape[d]);
  }
  return {{contiguous_meta(shape, self.dtype)}};
}

/// A padded dim is whole. Terms of a sum pass if zeros are added, all others with any number.
Rows rule_pad(const RuleContext& context) {
  const auto padding = padding_of(context.schema.args[1], context.tensors[0]->ndim());
  Rows rows;
  bool pads = false;
  for (std::size_t d = 0; d < padding.size(); ++d) {
    const bool kept = padding[d][0] == 0 && padding[d][1] == 0;
    if (kept) rows.push_back(uniform_row(any(static_cast<std::int64_t>(d)), 1, 1));
    pads = pads || !kept;
  }
  const bool zero = !context.schema.args[2].scalar().to_bool();
  append_passing(rows, !pads || zero ? "saxn" : "axn", 1, 1);
  return rows;
}

Results pad_locally(Calls& calls, const OpRow&, const Arguments& args) {
  DTensor x = args[0].tensor();
  const auto padding = padding_of(args[1], x.ndim());
  for (std::size_t d = 0; d < padding.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    const auto [front, behind] = padding[d];
    const std::int64_t first = std::max<std::int64_t>(-front, 0);
    const std::int64_t last = x.shape()[d] + std::min<std::int64_t>(behind, 0);
    ArgumentList parts;
    const auto add_constants = [&](std::int64_t count) {
      Dims shape = x.shape();
      shape[d] = count;
      if (count > 0) parts.emplace_back(calls.one("new_full", {x, shape, args[2]}));
    };
    add_constants(front);
    parts.emplace_back(calls.one("slice.Tensor", {x, dim, first, last}));
    add_constants(behind);
    x = calls.one("cat", {parts, dim});
  }
  if (padding.empty()) x = calls.one("clone", {x});
  return {Argument(std::move(x))};
}

Gradients grad_pad(const GradContext& context) {
  Dims back = ints_of(context.inputs[1]);
  for (std::int64_t& count : back) count = -count;
  return {context.calls.one("aten::constant_pad_nd", {context.grads[0], back, 0})};
}

Gradients grad_cat(const GradContext& context) {
  const ArgumentList& inputs = context.inputs[0].list();
  const std::int64_t dim = wrap_dim(context.inputs[1].to_int(), context.grads[0].ndim());
  Gradients gradients(inputs.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DTensor& piece = inputs[i].tensor();
    if (piece.ndim() != context.grads[0].ndim()) continue;  // the legacy empty 1-d tensor
    const std::int64_t size = piece.shape()[static_cast<std::size_t>(dim)];
    if (context.needs(i)) {
      gradients[i] = cast_like(context.calls,
                               slice_of(context.calls, context.grads[0], dim, start, size), piece);
    }
    start += size;
  }
  return gradients;
}

Gradients grad_stack(const GradContext& context) {
  const std::size_t count = context.inputs[0].list().size();
  Gradients gradients(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!context.needs(i)) continue;
    gradients[i] = context.calls.one(
        "aten::select.int", {context.grads[0], context.inputs[1], static_cast<std::int64_t>(i)});
  }
  return gradients;
}

// Sorted by name.
// clang-format off
constexpr Row kJoinRows[] = {
    {"cat"_op, meta_cat, rule_cat, KernelId::kCat, {grad_cat, ""},
     "positions along the dim are global", 0, {1}},
    {"constant_pad_nd"_op, meta_pad, rule_pad, pad_locally, {grad_pad, ""},
     "a padded dim has its ends on some ranks only", 0, {1}},
    {"stack"_op, meta_stack, rule_stack, KernelId::kStack, {grad_stack, ""},
     "all tensors follow one layout", 0, {1}},
};
// clang-format on

}  // namespace

void register_join(OpRegistry& registry) { add_rows(registry, kJoinRows, kExact); }

}  // namespace shardlab
