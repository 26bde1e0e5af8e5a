// sequence_dims.h - the dim of a value along which attention mixes: 1 of [batch, time, features], 0
// of [time, batch, features].
#pragma once

#include <map>

#include "sim/remesh/call_program.h"

namespace shardlab {

/// The sequence dim of each value; those are left out that no attention is computed from, and of
/// whose dims several have become one.
std::map<std::int32_t, std::size_t> sequence_dims(const CallProgram& program);

}  // namespace shardlab
