// greedy.h - the walk of the greedy planner, shared by plans and prices. Allocates
// nothing on meshes of up to four dims.
#pragma once

#include "plan/plan.h"

namespace shardlab {

/// The greedy walk over a working copy of the placements, which the owner sees step by step.
class GreedyWalk {
 public:
  GreedyWalk(const DTensorSpec& source, const Placements& target, PlanRules rules)
      : current_(source.placements()),
        target_(target),
        rules_(rules),
        clears_nesting_(source.num_shards() > 1) {}

  /// Calls visit(mesh_dim, from, to) for every step in order; `to` is already in current().
  template <typename Visit>
  void run(Visit&& visit) {
    const std::size_t ndim = current_.size();
    if (ndim == 1) {
      if (current_[0] != target_[0] || rules_ == PlanRules::kSeed) step(0, target_[0], visit);
      return;
    }
    for (std::size_t left = clears_nesting_ ? ndim : 0; left > 0; --left) {
      const std::size_t mesh_dim = left - 1;
      const Placement wanted = aligned(mesh_dim) ? target_[mesh_dim] : Placement::replicate();
      if (current_[mesh_dim] != wanted) step(mesh_dim, wanted, visit);
    }
    for (std::size_t mesh_dim = 0; mesh_dim < ndim; ++mesh_dim) {
      if (current_[mesh_dim] != target_[mesh_dim]) step(mesh_dim, target_[mesh_dim], visit);
    }
  }
  const Placements& current() const { return current_; }

 private:
  /// False when the target is a shard of a tensor dim that the mesh dims outside of this one cut in
  /// one way now and in another way in the end. Strided shards are not checked, as in the
  /// reference.
  bool aligned(std::size_t mesh_dim) const {
    const Placement& wanted = target_[mesh_dim];
    if (!wanted.is_plain_shard()) return true;
    for (std::size_t outer = 0; outer < mesh_dim; ++outer) {
      const bool now = current_[outer].is_plain_shard() && current_[outer].dim == wanted.dim;
      const bool then = target_[outer].is_plain_shard() && target_[outer].dim == wanted.dim;
      if (now != then) return false;
    }
    return true;
  }
  template <typename Visit>
  void step(std::size_t mesh_dim, const Placement& to, Visit&& visit) {
    const Placement from = current_[mesh_dim];
    current_[mesh_dim] = to;
    visit(mesh_dim, from, to);
  }

  Placements current_;
  const Placements& target_;
  PlanRules rules_;
  bool clears_nesting_;
};

}  // namespace shardlab
