// near_pieces.h - most values of a verified run are pieces of f32 that are as close to one device
// as rounding allows: this is seen in memory, without putting them together in f64.
#pragma once

#include <optional>
#include <vector>

#include "mesh/dtensor.h"
#include "sim/verify/compare.h"

namespace shardlab {

/// The comparison of a value under `spec` with `single`, the same value on one device, as compare()
/// gives it without a run in f64. None: a doubt, replicas that differ included, or another form of
/// value (another dtype, pending, not in order on the host): put it together and compare.
std::optional<Comparison> compare_pieces(const DTensorSpec& spec,
                                         const std::vector<DTensor>& pieces, const Tensor& single);

}  // namespace shardlab
