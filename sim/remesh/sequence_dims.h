// sequence_dims.h - the dim of a value along which attention mixes: 1 of [batch, time, features], 0
// of [time, batch, features].
#pragma once

#include <map>

#include "sim/remesh/call_program.h"

namespace shardlab {

/// The dim of a value that is its sequence, or that begins with it, as rows of [time * batch,
/// features] do.
struct SequenceDim {
  std::size_t dim = 0;
  std::int64_t length = 0;  ///< of the sequence: a view of even pieces takes these apart evenly
};

/// The sequence dim of each value; those are left out that no attention is computed from, and of
/// whose dims several have become one.
std::map<std::int32_t, SequenceDim> sequence_dims(const CallProgram& program);

}  // namespace shardlab
