// op_work.h - the work of one call on one rank: arithmetic, and bytes that its kernel touches.
#pragma once

#include <span>
#include <string>

#include "mesh/mesh_layout.h"
#include "sim/log/trace.h"

namespace shardlab {

struct OpWork {
  /// Multiplications and additions of matrix products, convolutions and attention, each counted as
  /// one, on the rank's own pieces: exact. Nothing is counted for other ops.
  double flops = 0;
  double bytes = 0;  ///< of its operands and results; 0 for views
};

/// A rank of a run by its place in the program's mesh.
struct RankPlace {
  const MeshLayout* mesh = nullptr;
  Coordinate coordinate;
};

/// The work of an op, on plain or on distributed tensors; other events have none. Of a tensor on a
/// slice of the mesh that the rank is not in, the piece of its slice is counted.
OpWork work_of(const TraceEvent& event, const RankPlace& rank);
/// The sum over several.
OpWork work_of(std::span<const TraceEvent> events, const RankPlace& rank);

/// "1.05 MFLOP".
std::string flops_text(double flops);

}  // namespace shardlab
