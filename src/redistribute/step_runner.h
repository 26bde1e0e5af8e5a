// step_runner.h - one step of a plan on one rank.
#pragma once

#include "comm/device_mesh.h"
#include "plan/state.h"
#include "redistribute/pieces.h"
#include "redistribute/redistribute.h"

namespace shardlab {

/// Executes the steps of one plan on this rank. Holds references to plan, mesh and options; used by
/// one rank.
class StepRunner {
 public:
  StepRunner(const Plan& plan, const DeviceMesh& mesh, const RedistributeOptions& options)
      : plan_(plan), mesh_(mesh), options_(options) {}

  /// This rank's tensor after step `index`, from the one before it.
  ///   fails  Runtime, Value: pairs that can't be executed (R-51, R-58, X-2, X-10, K-16)
  Tensor run(std::size_t index, const Tensor& x) const;

 private:
  /// The group of a step: its dims in ascending order, its size, this rank's place in it, its
  /// communicator.
  struct Group {
    InlineVector<std::size_t, 2> mesh_dims;
    std::int64_t count;
    std::int64_t index;
    ProcessGroup* ranks;
  };
  Group group_of(const PlanStep& step) const;
  /// Elements along the step's sharded dim that the group holds together: the global size cut by
  /// the mesh dims that cut before.
  std::int64_t group_length(std::size_t index, const Group& group) const;
  /// The pieces of all ranks of the group, of `length` elements that its dims cut one after
  /// another.
  PieceList lengths_of(std::int64_t length, const Placement& shard, const Group& group) const;

  Tensor to_replicate(std::size_t index, const Tensor& x, const Group& group) const;
  Tensor to_shard(std::size_t index, const Tensor& x, const Group& group) const;
  Tensor to_partial(std::size_t index, const Tensor& x, const Group& group) const;

  Tensor norm_terms(const Tensor& x, const PlanStep& step, const Group& group) const;
  Tensor all_reduce(const Tensor& x, const Placement& partial, const Group& group) const;
  Tensor all_gather(std::size_t index, const Tensor& x, const Group& group) const;
  /// The pieces of all ranks, one after another, as memory for `purpose`.
  Tensor gather_pieces(std::size_t index, const Tensor& x, const Group& group,
                       HeldFor purpose) const;
  Tensor reduce_scatter(const Tensor& x, const PlanStep& step, const Group& group) const;
  Tensor all_to_all(std::size_t index, const Tensor& x, const Group& group) const;
  Tensor permute(const Tensor& x, const PlanStep& step) const;
  Tensor shard_to_sum(std::size_t index, const Tensor& x, const Group& group) const;
  [[noreturn]] void refuse(const PlanStep& step, const Group& group) const;

  const Plan& plan_;
  const DeviceMesh& mesh_;
  const RedistributeOptions& options_;
};

}  // namespace shardlab
