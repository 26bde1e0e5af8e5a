// backends.h - the backends of this build, by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/scheduler.h"
#include "comm/backend.h"

namespace shardlab {

/// Makes a backend for this many ranks, run by this scheduler.
using BackendFactory = std::unique_ptr<Backend> (*)(std::int64_t ranks, Scheduler& scheduler);

/// "threads", ...
std::vector<std::string_view> backend_names();
/// Fails with Value, naming those that exist, for an unknown name.
BackendFactory find_backend(std::string_view name);

}  // namespace shardlab
