// kept_tensors.h - the values of a run as tensors of a checkpoint: to be saved, or compared with
// one.
#pragma once

#include <vector>

#include "sim/checkpoint/edited.h"
#include "sim/judge/expectations.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// The last value of each name whose elements were all kept, and its placements: a pending sum is
/// its result, and what a rank holds for itself is left out. Both in one order.
struct KeptTensors {
  MadeTensors tensors;
  std::vector<const DTensorSpec*> specs;
};
KeptTensors kept_tensors(const std::vector<ValueReport>& values, const MeshLayout* mesh);

/// Whether the tensors of a checkpoint are the values of their names: bit for bit, or within the
/// tolerance of [expect] for their dtype.
ExpectationReport check_checkpoint(const Scenario& scenario, const KeptTensors& kept);

}  // namespace shardlab
