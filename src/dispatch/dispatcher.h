// dispatcher.h - one op call on one rank: unwrap, propagate, redistribute inputs, localise, run,
// wrap (section D of tests/behaviour.md). Below autograd.
#pragma once

#include "mesh/local_shape.h"
#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// Runs `row` on the current rank. Tensors in `args` may be plain, distributed or mixed as D-56 to
/// D-59 allow; with plain tensors only, the local kernel runs. Programs that compute the op call
/// others through `plain`.
Results dispatch(Calls& plain, const OpRow& row, const Arguments& args);

}  // namespace shardlab
