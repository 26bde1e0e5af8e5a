// A plan is found for the specs, which is the same on all ranks, and its steps run one after the
// other, each on the result of the one before. Equal specs are one pointer: there is nothing
// to do, nor where only the meaning of strided shards differs. Ranks outside the mesh keep
// their tensor.
#include "redistribute/redistribute.h"

#include "comm/observer.h"
#include "redistribute/between_meshes.h"
#include "redistribute/local_math.h"
#include "redistribute/step_runner.h"

namespace shardlab {
namespace {

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
