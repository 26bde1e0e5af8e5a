// on_mesh.h - redistributions on simulated ranks with CPU kernels, for tests.
#pragma once

#include <functional>
#include <vector>

#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "redistribute/redistribute.h"
#include "sim/world/world.h"

namespace shardlab::test {

/// A CPU device with all kernels, shared by all tests.
Device& cpu();
Tensor tensor(Dims shape, const std::vector<double>& values, DType dtype = DType::kF32);

/// One mesh, and a world of ranks around it.
class OnMesh {
 public:
  /// `ranks`: the mesh's rank array, row-major; empty: 0, 1, ... `world`: 0 for as many as the
  /// mesh.
  explicit OnMesh(Dims mesh, std::vector<std::int64_t> ranks = {}, std::int64_t world = 0);

  const DTensorSpec* spec(std::string_view placements, Dims shape, DType dtype = DType::kF32);
  /// Placements as in plan_support.h, with places in the cutting sequence.
  const DTensorSpec* spec(std::string_view placements, ShardOrder order, Dims shape);
  const MeshLayout* layout() const { return layout_; }

  /// Runs `body` on every rank, the mesh made; throws what ranks threw.
  void run(const std::function<void(RankContext&)>& body);
  /// The final values of every rank; `inputs` by rank.
  std::vector<std::vector<double>> moved(const std::vector<Tensor>& inputs,
                                         const DTensorSpec* source, const DTensorSpec* target,
                                         const RedistributeOptions& options = {});

 private:
  Arena arena_;
  const MeshLayout* layout_;
  std::int64_t world_;
  PlanCache plans_{PlanOptions{}, 64};  // fewer than tests here make while a rank waits
};

}  // namespace shardlab::test
