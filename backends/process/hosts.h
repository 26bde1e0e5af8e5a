// hosts.h - the ranks of a job that share a host.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/process/control_channel.h"

namespace shardlab::process {

/// For each rank of the job the number of its host, counted from 0 in the order of ranks. All take
/// part. SHARDLAB_HOST replaces the host's own name, for tests.
std::vector<std::int64_t> host_numbers(ControlChannel& channel);

}  // namespace shardlab::process
