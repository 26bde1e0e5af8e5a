// rank_work.h - the total work of each rank.
#pragma once

#include <string>
#include <vector>

#include "sim/report/line_visits.h"
#include "sim/run/run.h"

namespace shardlab {

/// Ranks that compute equally much.
struct RankWork {
  std::string ranks;  ///< "0-2,7"; of classes their places: "dp 0-7, tp 0-63"
  double flops = 0;   ///< as in op_work.h, forward and backward
  double bytes = 0;
};

/// The work of all ranks of the mesh, the reporting rank's first. Known from the reporting rank's
/// events if every rank made the same calls on distributed tensors, whose pieces follow from their
/// types; empty if ranks made different ones, run in processes of their own, or multiply plain
/// tensors, whose shapes no other rank knows.
std::vector<RankWork> rank_works(const Run& run, const std::vector<LineVisit>& visits);

}  // namespace shardlab
