// all_ops.h - every op there is: the rows of src/ops with the handlers of dispatch.
#pragma once

namespace shardlab {

class OpRegistry;

/// Fills an empty registry, to which a program may then add its own rows.
void register_all_ops(OpRegistry& registry);
/// Filled once; lives as long as the process, like tensors and tapes that point into it.
/// Thread-safe.
const OpRegistry& all_ops();

}  // namespace shardlab
