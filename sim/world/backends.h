// backends.h - the backends of this build, by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/process/checks.h"
#include "base/scheduler.h"
#include "comm/backend.h"

namespace shardlab {

namespace process {
class ControlChannel;
}

/// Makes a backend for this many ranks, run by this scheduler.
using BackendFactory = std::unique_ptr<Backend> (*)(std::int64_t ranks, Scheduler& scheduler);

/// One rank per process.
struct ProcessBackend {
  /// This process's place in its job, which it joins with the first call. Fails with Runtime
  /// outside of a job, with Unsupported in a build without the library it needs.
  process::ControlChannel& (*join)();
  /// Makes the backend of a run, which has begun on the channel.
  std::unique_ptr<Backend> (*make)(CollectiveChecks checks);
  /// What to type for so many processes: "mpirun -n 8".
  std::string (*launcher)(std::int64_t ranks);
};

/// Exactly one of `make` and `processes` is there.
struct BackendEntry {
  std::string_view name;
  BackendFactory make = nullptr;  ///< all ranks in this process
  const ProcessBackend* processes = nullptr;
};

/// "threads", ...
std::vector<std::string_view> backend_names();
/// Fails with Value, naming those that exist, for an unknown name.
const BackendEntry& find_backend(std::string_view name);

}  // namespace shardlab
