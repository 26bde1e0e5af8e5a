// host_table.h - the device's functions on the host, for tests.
#pragma once

#include "backends/cuda/table.h"

namespace shardlab::cuda {

/// Lives as long as the program. A context is used by one thread.
const Table& host_table();

}  // namespace shardlab::cuda
