// A plan is found for the specs, which is the same on all ranks, and its steps run one after the
// other, each on the result of the one before. Equal specs are one pointer: there is nothing
// to do, nor where only the meaning of strided shards differs. Ranks outside the mesh keep
// their tensor.
#include "redistribute/redistribute.h"

#include <algorithm>
#include <cmath>

#include "comm/observer.h"
#include "plan/state.h"
#include "redistribute/between_meshes.h"
#include "redistribute/local_math.h"
#include "redistribute/pieces.h"

namespace shardlab {
namespace {

// One step is one collective or local operation over the ranks that differ in the step's mesh dims
// only. Lengths of uneven pieces are passed to the collective as they are, and padding is a matter
// of backends. The length that the group cuts is the one that the cuts before the step's own have
// left at this rank's coordinate; it is the same for all ranks of the group, because they
// share all other coordinates. A step over several mesh dims takes them in mesh order, as its
// group does.

/// The way from terms to a value: `before` and `after` are applied by every rank, the reduction
/// between.
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

/// The dtype that terms are reduced in. f16 holds no squares of its own small and large numbers, so
/// powers are added in f32, as one device adds them.
DType reduced_in(DType dtype, const Combine& how) {
  return dtype == DType::kF16 && how.before != 1 ? DType::kF32 : dtype;
}

/// Executes the steps of one plan on this rank. Holds references to plan, mesh and options; used by
/// one rank.
class StepRunner {
 public:
  StepRunner(const Plan& plan, const DeviceMesh& mesh, const RedistributeOptions& options)
      : plan_(plan), mesh_(mesh), options_(options) {}

  /// This rank's tensor after step `index`, from the one before it.
  ///   fails  Runtime, Value: pairs that can't be executed (R-51, R-58, X-2, X-10, K-16)
  Tensor run(std::size_t index, const Tensor& x) const {
    const PlanStep& step = plan_.steps[index];
    if (step.kind == StepKind::kPermute) return permute(x, step);
    const Group group = group_of(step);
    // nothing to move along a mesh dim of size 1. Masks were applied before the first step.
    if (step.from == step.to || group.count == 1) return x;
    const auto scaled = [&](const Tensor& sum) {
      return step.avg_scale == 1 ? sum : divided(sum, step.avg_scale);
    };
    if (step.to.is_replicate()) return scaled(to_replicate(index, x, group));
    if (step.to.is_shard()) return scaled(to_shard(index, x, group));
    return to_partial(index, x, group);
  }

 private:
  /// The group of a step: its dims in ascending order, its size, this rank's place in it, its
  /// communicator.
  struct Group {
    InlineVector<std::size_t, 2> mesh_dims;
    std::int64_t count;
    std::int64_t index;
    ProcessGroup* ranks;
  };
  Group group_of(const PlanStep& step) const {
    Group group{step.mesh_dims, 1, 0, nullptr};
    std::ranges::sort(group.mesh_dims);
    for (const std::size_t mesh_dim : group.mesh_dims) {
      const std::int64_t size = mesh_.layout()->size(mesh_dim);
      group.index = group.index * size + (*mesh_.coordinate())[mesh_dim];
      group.count *= size;
    }
    if (group.count > 1) group.ranks = &mesh_.group(group.mesh_dims);
    return group;
  }
  /// Elements along the step's sharded dim that the group holds together: the global size cut by
  /// the mesh dims that cut before.
  std::int64_t group_length(std::size_t index, const Group& group) const {
    const PlanState state = state_before(plan_, index);
    const std::int32_t dim = state.placements[group.mesh_dims[0]].dim;
    std::int64_t length = plan_.source->shape()[static_cast<std::size_t>(dim)];
    for (const std::size_t mesh_dim : cutting_order(state.placements, state.order, dim)) {
      if (mesh_dim == group.mesh_dims[0]) return length;
      const Cut cut{state.placements[mesh_dim], mesh_.layout()->size(mesh_dim),
                    (*mesh_.coordinate())[mesh_dim]};
      length = dim_map(length, {&cut, 1}).local_size();
    }
    fail(ErrorKind::kInternal, "{} has no place in the cutting order of dim {}", group.mesh_dims[0],
         dim);
  }
  /// The pieces of all ranks of the group, of `length` elements that its dims cut one after
  /// another.
  PieceList lengths_of(std::int64_t length, const Placement& shard, const Group& group) const {
    Dims counts;
    for (const std::size_t mesh_dim : group.mesh_dims) {
      counts.push_back(mesh_.layout()->size(mesh_dim));
    }
    return {length, counts, shard};
  }

  Tensor to_replicate(std::size_t index, const Tensor& x, const Group& group) const {
    const PlanStep& step = plan_.steps[index];
    if (step.from.is_partial()) return all_reduce(x, step.from, group);
    return all_gather(index, x, group);
  }
  Tensor to_shard(std::size_t index, const Tensor& x, const Group& group) const {
    const PlanStep& step = plan_.steps[index];
    if (step.from.is_replicate()) return cut_piece(x, step.to, group.count, group.index);
    const bool strided = step.from.is_strided_shard() || step.to.is_strided_shard();
    if (step.from.is_partial()) {
      if (!strided) return reduce_scatter(x, step, group);
      return cut_piece(all_reduce(x, step.from, group), step.to, group.count, group.index);
    }
    if (strided || step.from.is_shard(step.to.dim)) {  // through all pieces
      return cut_again(gather_pieces(index, x, group, HeldFor::kCommunication), step.from, step.to,
                       group.count, group.index);
    }
    return all_to_all(index, x, group);
  }
  Tensor to_partial(std::size_t index, const Tensor& x, const Group& group) const {
    const PlanStep& step = plan_.steps[index];
    const bool shard = step.from.is_shard();
    const bool backward = options_.direction == Direction::kBackward;
    if (backward && !step.from.is_partial()) {
      return shard ? all_gather(index, x, group) : x;  // gradients stay replicated
    }
    if (step.kind == StepKind::kShardToPartial) return shard_to_sum(index, x, group);
    if (step.kind != StepKind::kToPartial) refuse(step, group);
    if (step.to.kind == PlacementKind::kNormPartial) return norm_terms(x, step, group);
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
                fmt::format("a {} value has no {} terms on {} ranks that reduce back to it",
                            to_string(step.to), to_string(x.dtype()), group.count))
        .with("mesh", mesh_.layout()->text())
        .with("placements", to_string(step.from) + " -> " + to_string(step.to))
        .with("fix", "cast it to a floating dtype first, or stay at R on this mesh dim");
  }

  /// K-16: n equal terms t have the p-norm t n^(1/p).
  Tensor norm_terms(const Tensor& x, const PlanStep& step, const Group& group) const {
    const double p = step.to.norm;
    if (std::isinf(p)) return x;
    // A count of non-zeros cannot be split into terms, nor can integers.
    if (p == 0 || is_integral(x.dtype())) refuse(step, group);
    return divided(x, std::pow(static_cast<double>(group.count), 1 / p));
  }
  Tensor all_reduce(const Tensor& x, const Placement& partial, const Group& group) const {
    const Combine how = combine(partial);
    // One at a time: terms are freed before roots are taken.
    Tensor value = raised(converted_to(x, reduced_in(x.dtype(), how)), how.before);
    value = group.ranks->all_reduce(value, how.op, options_.issue);
    return converted_to(raised(value, how.after), x.dtype());
  }
  Tensor all_gather(std::size_t index, const Tensor& x, const Group& group) const {
    const Placement& from = plan_.steps[index].from;
    const HeldFor purpose = from.is_plain_shard() ? HeldFor::kGathered : HeldFor::kCommunication;
    const Tensor pieces = gather_pieces(index, x, group, purpose);
    const MakingScope scope(HeldFor::kGathered);
    return assemble(pieces, from, group.count);
  }
  /// The pieces of all ranks, one after another, as memory for `purpose`.
  Tensor gather_pieces(std::size_t index, const Tensor& x, const Group& group,
                       HeldFor purpose) const {
    const MakingScope scope(purpose);
    const Placement& from = plan_.steps[index].from;
    const PieceList lengths = lengths_of(group_length(index, group), from, group);
    return group.ranks->all_gather(x, from.dim, lengths, options_.issue);
  }
  Tensor reduce_scatter(const Tensor& x, const PlanStep& step, const Group& group) const {
    const Combine how = combine(step.from);
    const std::int64_t length = x.size(static_cast<std::size_t>(step.to.dim));
    const PieceList lengths = lengths_of(length, step.to, group);
    Tensor value = raised(converted_to(x, reduced_in(x.dtype(), how)), how.before);
    value = group.ranks->reduce_scatter(value, step.to.dim, lengths, how.op, options_.issue);
    return converted_to(raised(value, how.after), x.dtype());
  }
  Tensor all_to_all(std::size_t index, const Tensor& x, const Group& group) const {
    const PlanStep& step = plan_.steps[index];
    const std::int64_t split = x.size(static_cast<std::size_t>(step.to.dim));
    const std::int64_t count[] = {group.count};
    const PieceList split_lengths(split, count, step.to);
    const PieceList concat_lengths(group_length(index, group), count, step.from);
    return group.ranks->all_to_all(x, step.to.dim, split_lengths, step.from.dim, concat_lengths,
                                   options_.issue);
  }
  /// Ranks exchange whole pieces. If every rank keeps its own, there is no communication.
  Tensor permute(const Tensor& x, const PlanStep& step) const {
    if (step.senders.empty()) return x;
    const MeshLayout& layout = *mesh_.layout();
    const std::int64_t own = layout.index_of(*mesh_.coordinate());
    const std::int64_t from = step.senders[static_cast<std::size_t>(own)];
    const auto to = std::ranges::find(step.senders, own) - step.senders.begin();
    ProcessGroup* const everyone = mesh_.everyone();
    const auto place = [&](std::int64_t index) -> std::int64_t {
      const std::int64_t rank = layout.rank_at_index(index);
      if (everyone == nullptr) return rank;
      return std::ranges::find(everyone->ranks(), rank) - everyone->ranks().begin();
    };
    TensorMeta meta = x.meta();
    if (from != own) {
      const PlanState after{step.after, step.order_after};
      meta = contiguous_meta(state_shape(*plan_.source, after, *mesh_.coordinate()), x.dtype());
    }
    if (everyone != nullptr) {
      const Tensor received =
          everyone->permute(x, from == own ? -1 : place(to), from == own ? -1 : place(from), meta);
      return from == own ? x : received;
    }
    if (from == own) return x;
    ProcessGroup& world = *current_rank().world;
    const Tensor sent = world.send(x, place(to), kMoveTag, Issue::kAsync);
    const Tensor received = world.recv(meta, place(from), kMoveTag);
    sent.wait();
    return received;
  }
  /// this rank's term is its own slice, with zeros elsewhere.
  Tensor shard_to_sum(std::size_t index, const Tensor& x, const Group& group) const {
    const auto dim = static_cast<std::size_t>(plan_.steps[index].from.dim);
    const std::int64_t length = group_length(index, group);
    Dims shape = x.shape();
    shape[dim] = length;
    const Tensor term = zeros(*x.device(), shape, x.dtype());
    const Chunk own = chunk_of(length, group.count, group.index);
    x.device()->copy(term.narrow(dim, own.offset, own.size), x);
    return term;
  }
  [[noreturn]] void refuse(const PlanStep& step, const Group& group) const {
    throw Error(ErrorKind::kRuntime, fmt::format("can not redistribute from {} to {}",
                                                 to_string(step.from), to_string(step.to)))
        .with("mesh",
              mesh_.layout()->text() + ", dim " + mesh_.layout()->names()[group.mesh_dims[0]])
        .with("placements", plan_.text())
        .with("fix", "reduce or gather first: go through R on this mesh dim");
  }

  const Plan& plan_;
  const DeviceMesh& mesh_;
  const RedistributeOptions& options_;
};

InUse<Plan> find_plan(const DTensorSpec* source, const DTensorSpec* target, const DeviceMesh& mesh,
                      const RedistributeOptions& options) {
  RankContext& context = current_rank();
  check_invariant(context.plans != nullptr, "this rank has no plan cache");
  return context.plans->find(source, target, options.planner, mesh.flattened());
}

/// one record for one execution, made by the executor.
void report_moves(const Plan& plan, const RedistributeOptions& options) {
  Observer* const observer = observer_to_tell();
  if (observer == nullptr) return;
  observer->redistribution({.source = plan.source,
                            .target = plan.target,
                            .plan = &plan,
                            .argument = options.argument,
                            .backward = options.direction == Direction::kBackward,
                            .position = current_rank().position});
}

Tensor execute(const Plan& plan, const DeviceMesh& mesh, Tensor x,
               const RedistributeOptions& options, const TensorExtras* extras) {
  report_moves(plan, options);
  // The mask is placed as the tensor is now, so it is applied before anything moves (K-18, X-15).
  if (extras && extras->mask.defined()) x = masked(x, extras->mask);
  const StepRunner runner(plan, mesh, options);
  for (std::size_t index = 0; index < plan.steps.size(); ++index) x = runner.run(index, x);
  return x;
}

DTensor moved(const DTensor& x, const DTensorSpec* target, const RedistributeOptions& options) {
  if (x.spec()->layout() != target->layout()) return move_between(x, target, options);
  const DeviceMesh& mesh = device_mesh(target->layout());
  if (!mesh.participates()) return DTensor(x.local(), target);
  const InUse<Plan> plan = find_plan(x.spec(), target, mesh, options);
  const TensorExtras* extras = x.impl()->extras.get();
  const bool stays = plan->steps.empty();
  DTensor result(stays ? x.local() : execute(*plan, mesh, x.local(), options, extras), target);
  if (stays) result.impl()->extras = x.impl()->extras;
  report_placed(PlacedRecord::Kind::kRedistribute, x, result, options.argument);
  return result;
}

}  // namespace

Tensor redistribute_local(const Tensor& local, const DTensorSpec* source, const DTensorSpec* target,
                          const RedistributeOptions& options, const TensorExtras* extras) {
  const DTensor x(local, source);
  if (extras != nullptr) x.impl()->extras = std::make_shared<TensorExtras>(*extras);
  return moved(x, target, options).local();
}

DTensor redistribute_tensor(const DTensor& x, const DTensorSpec* target,
                            const RedistributeOptions& options) {
  return x.spec()->same_pieces(*target) ? x : moved(x, target, options);
}

const DTensorSpec* gradient_target(const DTensorSpec* gradient, const DTensorSpec* forward_source) {
  Placements placements = forward_source->placements();
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    // A gradient that is the same pending sum stays one; every other is wanted whole, also against
    // a partial that only its own op can make (masks, norms).
    const bool stays = gradient->layout() == forward_source->layout() &&
                       placements[mesh_dim].kind == PlacementKind::kPartial &&
                       gradient->placement(mesh_dim) == placements[mesh_dim];
    if (placements[mesh_dim].is_partial() && !stays) placements[mesh_dim] = Placement::replicate();
  }
  return forward_source->with(placements, forward_source->order())->with(gradient->meta());
}

}  // namespace shardlab
