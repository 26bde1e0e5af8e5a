#include "redistribute/step_runner.h"

#include <cmath>

#include "redistribute/local_math.h"
#include "redistribute/pieces.h"

namespace shardlab {
namespace {

/// How terms become a value: `before` and `after` are applied by every rank, the reduction between.
struct Combine {
  ReduceOp op = ReduceOp::kSum;
  double before = 1;  ///< exponent
  double after = 1;   ///< exponent
};

/// Norms of pieces combine to the norm of all: by the largest, the smallest, or the root of the sum
/// of powers. Counts of non-zeros (n = 0) add up.
Combine combine(const Placement& partial) {
  if (partial.kind != PlacementKind::kNormPartial) return {partial.op};
  if (std::isinf(partial.norm)) return {partial.norm > 0 ? ReduceOp::kMax : ReduceOp::kMin};
  if (partial.norm == 0 || partial.norm == 1) return {ReduceOp::kSum};
  return {ReduceOp::kSum, partial.norm, 1 / partial.norm};
}

Tensor raised(const Tensor& x, double exponent) { return exponent == 1 ? x : powered(x, exponent); }

}  // namespace

Tensor StepRunner::run(std::size_t index, const Tensor& x) const {
  const PlanStep& step = plan_.steps[index];
  check_invariant(step.mesh_dims.size() == 1, "merged steps are not built yet");
  const Group group = group_of(step);
  // nothing to move along a mesh dim of size 1. Masks were applied before the first step.
  if (step.from == step.to || group.count == 1) return x;
  if (step.to.is_replicate()) return to_replicate(index, x, group);
  if (step.to.is_shard()) return to_shard(index, x, group);
  return to_partial(index, x, group);
}

StepRunner::Group StepRunner::group_of(const PlanStep& step) const {
  const std::size_t mesh_dim = step.mesh_dims[0];
  const std::int64_t count = mesh_.layout()->size(mesh_dim);
  ProcessGroup* ranks = count > 1 ? &mesh_.group(mesh_dim) : nullptr;
  return {mesh_dim, count, (*mesh_.coordinate())[mesh_dim], ranks};
}

std::int64_t StepRunner::group_length(std::size_t index, const Group& group) const {
  const PlanState state = state_before(plan_, index);
  const std::int32_t dim = state.placements[group.mesh_dim].dim;
  std::int64_t length = plan_.source->shape()[static_cast<std::size_t>(dim)];
  for (const std::size_t mesh_dim : cutting_order(state.placements, state.order, dim)) {
    if (mesh_dim == group.mesh_dim) return length;
    const Cut cut{state.placements[mesh_dim], mesh_.layout()->size(mesh_dim),
                  (*mesh_.coordinate())[mesh_dim]};
    length = dim_map(length, {&cut, 1}).local_size();
  }
  fail(ErrorKind::kInternal, "{} has no place in the cutting order of dim {}", group.mesh_dim, dim);
}

Tensor StepRunner::to_replicate(std::size_t index, const Tensor& x, const Group& group) const {
  const PlanStep& step = plan_.steps[index];
  if (step.from.is_partial()) return all_reduce(x, step.from, group);
  return all_gather(index, x, group);
}

Tensor StepRunner::to_shard(std::size_t index, const Tensor& x, const Group& group) const {
  const PlanStep& step = plan_.steps[index];
  if (step.from.is_replicate()) return cut_piece(x, step.to, group.count, group.index);
  const bool strided = step.from.is_strided_shard() || step.to.is_strided_shard();
  if (strided || step.from.is_shard(step.to.dim)) {  // through the whole
    const Tensor whole = to_replicate(index, x, group);
    return cut_piece(whole, step.to, group.count, group.index);
  }
  if (step.from.is_partial()) return reduce_scatter(x, step, group);
  return all_to_all(index, x, group);
}

Tensor StepRunner::to_partial(std::size_t index, const Tensor& x, const Group& group) const {
  const PlanStep& step = plan_.steps[index];
  const bool shard = step.from.is_shard();
  if (options_.direction == Direction::kBackward && !step.from.is_partial()) {
    return shard ? all_gather(index, x, group) : x;  // gradients stay replicated
  }
  if (step.kind == StepKind::kShardToPartial) return shard_to_sum(index, x, group);
  if (step.kind != StepKind::kToPartial) refuse(step, group);
  switch (step.to.op) {  // K-16: reducing gives the value back
    case ReduceOp::kAvg:
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return x;
    case ReduceOp::kSum:
      if (is_integral(x.dtype())) break;
      return divided(x, static_cast<double>(group.count));
    default:
      break;
  }
  throw Error(ErrorKind::kValue,
              fmt::format("no {} term of a {} value on {} ranks reduces back to it",
                          to_string(step.to), to_string(x.dtype()), group.count))
      .with("mesh", mesh_.layout()->text())
      .with("placements", to_string(step.from) + " -> " + to_string(step.to));
}

Tensor StepRunner::all_reduce(const Tensor& x, const Placement& partial, const Group& group) const {
  const Combine how = combine(partial);
  return raised(group.ranks->all_reduce(raised(x, how.before), how.op, options_.issue), how.after);
}

Tensor StepRunner::all_gather(std::size_t index, const Tensor& x, const Group& group) const {
  const Placement& from = plan_.steps[index].from;
  const PieceLengths lengths = piece_lengths(group_length(index, group), group.count, from);
  return assemble(group.ranks->all_gather(x, from.dim, lengths, options_.issue), from, group.count);
}

Tensor StepRunner::reduce_scatter(const Tensor& x, const PlanStep& step, const Group& group) const {
  const Combine how = combine(step.from);
  const std::int64_t length = x.size(static_cast<std::size_t>(step.to.dim));
  const PieceLengths lengths = piece_lengths(length, group.count, step.to);
  const Tensor terms = raised(x, how.before);
  return raised(group.ranks->reduce_scatter(terms, step.to.dim, lengths, how.op, options_.issue),
                how.after);
}

Tensor StepRunner::all_to_all(std::size_t index, const Tensor& x, const Group& group) const {
  const PlanStep& step = plan_.steps[index];
  const std::int64_t split = x.size(static_cast<std::size_t>(step.to.dim));
  const PieceLengths split_lengths = piece_lengths(split, group.count, step.to);
  const PieceLengths concat_lengths =
      piece_lengths(group_length(index, group), group.count, step.from);
  return group.ranks->all_to_all(x, step.to.dim, split_lengths, step.from.dim, concat_lengths,
                                 options_.issue);
}

/// this rank's term is its own slice, with zeros elsewhere.
Tensor StepRunner::shard_to_sum(std::size_t index, const Tensor& x, const Group& group) const {
  const auto dim = static_cast<std::size_t>(plan_.steps[index].from.dim);
  const std::int64_t length = group_length(index, group);
  Dims shape = x.shape();
  shape[dim] = length;
  const Tensor term = zeros(*x.device(), shape, x.dtype());
  const Chunk own = chunk_of(length, group.count, group.index);
  x.device()->copy(term.narrow(dim, own.offset, own.size), x);
  return term;
}

void StepRunner::refuse(const PlanStep& step, const Group& group) const {
  throw Error(ErrorKind::kRuntime, fmt::format("can not redistribute from {} to {}",
                                               to_string(step.from), to_string(step.to)))
      .with("mesh", mesh_.layout()->text() + ", dim " + mesh_.layout()->names()[group.mesh_dim])
      .with("placements", plan_.text())
      .with("fix", "reduce or gather first: go through R on this mesh dim");
}

}  // namespace shardlab
