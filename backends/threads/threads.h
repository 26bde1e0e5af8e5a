// threads.h - the backend `threads`: ranks of one process that share memory (src/README.md, "Why
// these walls").
#pragma once

#include <cstdint>
#include <memory>

#include "base/scheduler.h"
#include "comm/backend.h"

namespace shardlab {

/// A world of `ranks` ranks that `scheduler` runs; takes over its stall handler. Collectives move
/// data through Device::copy, on any device; reductions run in host memory, or in that of a device
/// with a stream (backends/shared/stream_device.h). Shape-only devices work.
std::unique_ptr<Backend> make_threads_backend(std::int64_t ranks, Scheduler& scheduler);

}  // namespace shardlab
