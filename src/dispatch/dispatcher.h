// dispatcher.h - one op call on one rank: unwrap, propagate, redistribute inputs, localise, run,
// wrap (section D of tests/behaviour.md). Below autograd.
#pragma once

#include "mesh/local_shape.h"
#include "schema/op_row.h"

namespace shardlab {

/// Runs `row` on the current rank. Tensors in `args` may be plain, distributed or mixed as D-56 to
/// D-59 allow; with plain tensors only, the local kernel runs.
Results dispatch(const OpRow& row, const Arguments& args);

/// The offsets that the reference's tracker would use (K-34 to K-36, W-7); for comparison only,
/// since random ops here draw by global element index.
struct ReferenceOffsets {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};
ReferenceOffsets reference_rng_offsets(const DTensorSpec& spec, const Coordinate& coordinate,
                                       std::uint64_t offset);

}  // namespace shardlab
