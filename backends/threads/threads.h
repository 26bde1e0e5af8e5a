// threads.h - the backend `threads`: ranks of one process that share memory (src/README.md, "Why
// these walls").
#pragma once

#include <cstdint>
#include <memory>

#include "backends/shared/fabric_log.h"
#include "base/scheduler.h"
#include "comm/backend.h"

namespace shardlab {

/// A world of `ranks` ranks that `scheduler` runs; takes over its stall handler. Collectives move
/// data through Device::copy, on any device; reductions run in host memory, or in that of a device
/// with a stream (backends/shared/stream_device.h). Shape-only devices work.
std::unique_ptr<Backend> make_threads_backend(std::int64_t ranks, Scheduler& scheduler);

/// The fabric between the ranks of such a world, before they start.
struct Fabric {
  Transport transport = Transport::kNonblocking;
  bool lazy_groups = false;  ///< communicators are made at first use
  /// Draws the sender of which a receive from any takes its message, of those that have sent; 0:
  /// the first rank.
  std::uint64_t seed = 0;
  FabricLog* log = nullptr;  ///< outlives the world; may be null
};
void use_fabric(Backend& backend, const Fabric& fabric);

}  // namespace shardlab
