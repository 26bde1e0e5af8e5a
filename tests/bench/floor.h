// floor.h - the least memory traffic that could do a collective's work, measured in this run.
#pragma once

#include <cstdint>

namespace shardlab {

/// Processor time of this thread in seconds: other programs disturb it least.
double thread_seconds();
/// Seconds to read `ranks` inputs of `bytes` side by side and write one of them.
double floor_of_reduction(std::int64_t ranks, std::int64_t bytes);
/// Seconds to copy `ranks` inputs of `bytes` once.
double floor_of_copy(std::int64_t ranks, std::int64_t bytes);

}  // namespace shardlab
