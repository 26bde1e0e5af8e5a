// posted_steps.h - posts and waits of the ranks of a run, as the steps of a proof.
#pragma once

#include "backends/shared/fabric_log.h"
#include "comm/verdict.h"
#include "sim/prove/promise.h"

namespace shardlab {

/// Whether messages were passed, or several groups had collectives.
bool has_orders(const FabricLog& log);
/// C3 where ranks enter a group's collectives in several orders, with both lines; else the failure.
OpenCondition condition_of(const Verdict& verdict);
/// Steps, wrong messages, receives from any rank and polls; nothing is run yet.
Promise promise_of(const FabricLog& log, std::int64_t ranks);

}  // namespace shardlab
