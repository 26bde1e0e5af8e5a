// local_map.h - torch's local_map. Private to the builtins.
#pragma once

#include "sim/language/values/builtin.h"

namespace shardlab {

/// local_map(func, out_placements, in_placements=None, in_grad_placements=None, device_mesh=None,
/// redistribute_inputs=False): a function of distributed tensors, which calls `func` with pieces.
Value run_local_map(Interpreter& interpreter, const Value* self, CallValues call);

}  // namespace shardlab
