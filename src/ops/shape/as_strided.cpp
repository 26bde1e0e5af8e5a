// as_strided gives the place of each element in memory, which only a whole tensor can follow: one
// on a mesh of a single rank. For any other, whole dims are matched by size and stride: the result
// is a permutation. Its gradient is computed in the storage: elements are added up at the places
// they were taken from.
#include "ops/shape/as_strided.h"

#include <algorithm>
#include <optional>

#include "ops/family.h"

namespace shardlab {

namespace {

/// The dims of self in the order in which as_strided needs them; empty where it needs anything but
/// whole dims, each once.
std::optional<Dims> exchanged_dims(const TensorMeta& self, const TensorMeta& wanted,
                                   const Argument& offset) {
  const std::size_t ndim = self.shape.size();
  Dims order;
  std::vector<bool> taken(ndim, false);
  for (std::size_t i = 0; i < wanted.shape.size(); ++i) {
    for (std::size_t d = 0; d < ndim; ++d) {
      const bool fits = self.shape[d] == wanted.shape[i] && self.stride[d] == wanted.stride[i];
      if (!fits || taken[d]) continue;
      taken[d] = true;
      order.push_back(static_cast<std::int64_t>(d));
      break;
    }
  }
  const bool permutes = order.size() == ndim && wanted.shape.size() == ndim;
  if (!permutes || !(offset.is_none() || offset.to_int() == 0)) return std::nullopt;
  return order;
}

/// The last element that a layout reaches, counted from its first; -1 where it has none.
std::int64_t reach_of(const TensorMeta& meta) {
  if (product(meta.shape) == 0) return -1;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < meta.shape.size(); ++d) last += (meta.shape[d] - 1) * meta.stride[d];
  return last;
}

/// Whether two elements may be at one place: a dim does not step over all that the dims of smaller
/// strides reach.
bool may_overlap(const TensorMeta& meta) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (std::size_t d = 0; d < meta.shape.size(); ++d) {
    if (meta.shape[d] > 1) dims.emplace_back(meta.stride[d], meta.shape[d]);
  }
  std::ranges::sort(dims);
  std::int64_t reached = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reached) return true;
    reached += stride * (size - 1);
  }
  return false;
}

}  // namespace

OutputMetas meta_as_strided(const MetaArgs& args) {
  const Dims size = ints_of(args[1]), stride = ints_of(args[2]);
  const bool negative = std::ranges::any_of(stride, [](std::int64_t step) { return step < 0; }) ||
                        std::ranges::any_of(size, [](std::int64_t length) { return length < 0; });
  if (size.size() != stride.size() || negative) {
    fail(Fix{"write one stride per size, as x.shape and x.stride() do"},
         "as_strided: there are {} sizes and {} strides; there must be as many, none negative",
         size.size(), stride.size());
  }
  return {{{size, stride, args.tensor(0)->dtype}}};
}

MeshRuleResult rule_as_strided(const RuleContext& context) {
  const DTensorSpec& self = *context.tensors[0];
  if (self.layout()->size() == 1 && !self.has_partial()) {
    return {.outputs = {Placements(self.layout()->ndim())}, .inputs = {self.placements()}};
  }
  const auto order = exchanged_dims(self.meta(), context.outputs[0].meta, context.schema.args[3]);
  if (!order) {
    fail(ErrorKind::kRuntime, Fix{"use view, permute, expand or slicing"},
         "as_strided: a tensor in pieces takes only strides that exchange whole dims");
  }
  const Dims position = inverse_of(*order);
  Placements moved = self.placements();
  for (Placement& placement : moved) {
    if (placement.is_shard()) {
      placement.dim =
          static_cast<decltype(placement.dim)>(position[static_cast<std::size_t>(placement.dim)]);
    }
  }
  MeshRuleResult result;
  result.outputs = {std::move(moved)};
  result.inputs = {self.placements()};
  result.local_op = "aten::permute";
  result.adapted = {{1, AdaptedArgument::Token::kValue, 0, 0, Argument(*order)}};
  return result;
}

ViewResults view_as_strided(const Tensor& base, const MetaArgs& args) {
  TensorMeta meta = meta_as_strided(args)[0].meta;
  const std::int64_t offset = args[3].is_none() ? base.offset() : args[3].to_int();
  std::int64_t last = offset;
  for (std::size_t d = 0; d < meta.shape.size(); ++d) last += (meta.shape[d] - 1) * meta.stride[d];
  const auto held =
      static_cast<std::int64_t>(base.storage()->buffer()->size_bytes()) / item_bytes(base.dtype());
  if (product(meta.shape) > 0 && (offset < 0 || last >= held)) {
    fail(Fix{"use smaller sizes, strides or offset"},
         "as_strided: element {} is beyond the storage of {} elements", last, held);
  }
  return {{std::move(meta), offset}};
}

DTensor copied_memory(Calls& calls, const DTensor& x) {
  const TensorMeta& meta = x.meta();
  if (x.distributed() || may_overlap(meta)) return calls.one("aten::clone", {x});
  const std::int64_t held = static_cast<std::int64_t>(x.local().storage()->buffer()->size_bytes()) /
                            item_bytes(x.dtype());
  const DTensor memory = calls.one("aten::as_strided", {x, Dims{held}, Dims{1}, 0});
  return calls.one("aten::as_strided", {calls.one("aten::clone", {memory}), meta.shape, meta.stride,
                                        x.local().offset()});
}

grad::Gradients grad_as_strided(const GradContext& context) {
  Calls& calls = context.calls;
  const TensorMeta& self = grad::input(context, 0).meta();
  const TensorMeta wanted{ints_of(context.inputs[1]), ints_of(context.inputs[2]), self.dtype};
  const std::int64_t own = grad::input(context, 0).local().offset();
  const Argument& offset = context.inputs[3];
  const std::int64_t from = offset.is_none() ? own : offset.to_int();
  const bool shifted = !grad::input(context, 0).distributed() && from != own;
  const auto order = exchanged_dims(self, wanted, {});
  if (order && !shifted) {
    return {calls.one("aten::permute", {context.grads[0], inverse_of(*order)})};
  }
  if (may_overlap(self)) {
    fail(ErrorKind::kUnsupported, Fix{"take it of x.contiguous()"},
         "as_strided: no gradient for a tensor whose elements share memory");
  }
  const std::int64_t first = std::min(own, from);
  const std::int64_t held =
      std::max({own + reach_of(self), from + reach_of(wanted), first}) - first + 1;
  const auto flat = [&](const DTensor& x) { return calls.one("aten::reshape", {x, Dims{-1}}); };
  const DTensor zeros = calls.one("aten::new_zeros", {context.grads[0], Dims{held}});
  const DTensor places = calls.one(
      "aten::as_strided", {counted(calls, zeros, held), wanted.shape, wanted.stride, from - first});
  const DTensor sums =
      calls.one("aten::index_add", {zeros, 0, flat(places), flat(context.grads[0])});
  return {calls.one("aten::as_strided", {sums, self.shape, self.stride, own - first})};
}

}  // namespace shardlab
