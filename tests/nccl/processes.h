// processes.h - runs a test body in several processes, one a rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/nccl/api.h"

namespace shardlab {

/// Forks `ranks` processes, runs `body(rank)` in each and returns what they return, by rank: text
/// for what went wrong, empty for nothing. "died of signal 9" and the like where one did not come
/// to its end. Exceptions become text, and so does what it complained of.
std::vector<std::string> on_processes(int ranks, const std::function<std::string(int)>& body);

/// The double's functions.
const nccl::Api& double_api();

}  // namespace shardlab
