// random_draw.h - the source of the numbers of random ops.
#pragma once

#include <cstdint>

#include "base/rank_context.h"
#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// The state that a call of `row` draws from: the generator among its arguments, else `own`, else
/// the running rank's state.
RandomState& random_state(const OpRow& row, const Arguments& args, RandomState* own = nullptr);

/// The present value of that state; then it advances by `count`, the elements of the whole tensor,
/// so that every rank, those outside the mesh too, stays in step. Nothing happens for a row that is
/// not random.
RandomState draw(const OpRow& row, const Arguments& args, std::int64_t count,
                 RandomState* own = nullptr);

}  // namespace shardlab
