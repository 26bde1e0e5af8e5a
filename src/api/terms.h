// terms.h - a value split into the terms of pending reductions (scenarios/README.md, section 2).
#pragma once

#include "mesh/spec.h"
#include "tensor/tensor.h"

namespace shardlab {

/// The tensor that the rank at `coordinate` holds under `spec`: `piece`, its piece of the whole
/// value, with its term along each partial mesh dim. Deterministic, unequal between ranks, and
/// reducing to the value. A new tensor. Pure.
///   fails  Value: a mask partial, which only a lookup makes; a reduction that the dtype does not
///          have
Tensor own_terms(const Tensor& piece, const DTensorSpec& spec, const Coordinate& coordinate);

}  // namespace shardlab
