// posted_steps.h - posts and waits of the ranks of a run, as the steps of a proof.
#pragma once

#include "backends/shared/fabric_log.h"
#include "sim/prove/promise.h"

namespace shardlab {

/// Whether messages were passed, or several groups had collectives.
bool has_orders(const FabricLog& log);
/// Steps, wrong messages, receives from any rank and polls; nothing is run yet.
Promise promise_of(const FabricLog& log, std::int64_t ranks);

}  // namespace shardlab
