// op_mesh.h - calls of registered ops on simulated ranks, for tests.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "autograd/autograd.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "mesh/spec.h"
#include "propagate/propagator.h"
#include "schema/calls.h"

namespace shardlab {
class OpRegistry;
}  // namespace shardlab

namespace shardlab::test {

/// One mesh, and a world of ranks around it that knows all ops.
class OpMesh {
 public:
  /// `ranks`: the mesh's rank array; empty: 0, 1, ... `world`: 0 for as many as the mesh.
  explicit OpMesh(Dims mesh, std::vector<std::int64_t> ranks = {}, std::int64_t world = 0);
  /// The same, knowing these ops.
  OpMesh(const OpRegistry& ops, Dims mesh, std::vector<std::int64_t> ranks = {},
         std::int64_t world = 0);

  const MeshLayout* layout() const { return layout_; }
  /// Placements as in plan_support.h: "S(0) R".
  const DTensorSpec* spec(std::string_view text, Dims shape, DType dtype = DType::kF32);
  /// On a rank: this rank's piece of a value.
  DTensor place(std::string_view text, Dims shape, const std::vector<double>& values,
                DType dtype = DType::kF32);

  Propagator& propagator() { return propagator_; }

  /// Runs `body` on every rank, the mesh made; throws what ranks threw.
  void run(const std::function<void(RankContext&)>& body);

 private:
  Arena arena_;
  const MeshLayout* layout_;
  std::int64_t world_;
  Propagator propagator_;
};

/// Calls of all registered ops, recorded for gradients.
inline Calls& ops() { return recording_calls(); }
/// On a rank: a plain tensor.
DTensor plain(Dims shape, const std::vector<double>& values, DType dtype = DType::kF32);
/// On a rank: the whole value, row-major; of a plain tensor its own values.
std::vector<double> whole(const DTensor& x);
/// On a rank: the values of its piece, row-major.
std::vector<double> local_values(const DTensor& x);
/// The kind of the Error that `call` throws; fails the test when it throws none.
ErrorKind kind_of(const std::function<void()>& call);
/// 0, 1, ..., count - 1.
std::vector<double> counted(std::int64_t count);

}  // namespace shardlab::test
