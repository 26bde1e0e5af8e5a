// handlers.h - ops that don't follow the common path (D-3). They receive the raw arguments.
#pragma once

namespace shardlab {

class OpRegistry;

/// Gives the rows of these ops their handlers.
void register_handlers(OpRegistry& registry);

}  // namespace shardlab
