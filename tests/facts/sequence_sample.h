// sequence_sample.h - a recorded sequence of calls as a sample of the prover (sim/proof), which
// places its inputs in every way.
#pragma once

#include <memory>

#include "sim/proof/read_samples.h"
#include "tests/facts/call_sequence.h"

namespace shardlab {

/// Its values are the recorded outputs that can be compared, numbers as tensors without dims.
/// Values that the calls make without an operand are the same on every rank, and so are constants.
OpSample sample_of(std::shared_ptr<const CallSequence> sequence);

}  // namespace shardlab
