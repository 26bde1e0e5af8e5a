// backends.h - the backends of this build, by name.
#pragma once

#include <cstdint>
#include <functional>
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
using BackendFactory =
    std::function<std::unique_ptr<Backend>(std::int64_t ranks, Scheduler& scheduler)>;

/// One rank per process.
struct ProcessBackend {
  /// This process's place in its job, which it joins with the first call. Fails with Runtime
  /// outside of a job, with Unsupported in a build without the library it needs.
  process::ControlChannel& (*join)();
  /// Makes the backend of a run, which has begun on the channel.
  std::unique_ptr<Backend> (*make)(CollectiveChecks checks);
  /// The libraries below it, as a line that is the same on all ranks. After join().
  std::string (*libraries)();
  /// The words to type for this many processes: "mpirun -n 8".
  std::string (*launcher)(std::int64_t ranks);
};

/// One of three: all ranks in this process, one per process, or one rank of each class.
struct BackendEntry {
  std::string name;
  BackendFactory make;  ///< all ranks in this process
  const ProcessBackend* processes = nullptr;
  bool by_class = false;  ///< one rank of each class, without data
};

/// Adds a backend whose ranks share this process, also one that is made outside of this repository:
/// from then on worlds and `--backend` find it by its name. Before worlds start; any thread.
///   fails  Value: the name is taken, or empty
void register_backend(std::string name, BackendFactory factory);

/// "threads", ...; registered ones last.
std::vector<std::string_view> backend_names();
/// True for a backend that runs one rank of each class; false for an unknown name.
bool is_shape_only(std::string_view name);
/// True when ranks may take over each other's results: they are in one process, and have data.
/// Fails as find_backend.
bool can_share_kernels(std::string_view name);
/// The other processes of this backend's job, which is joined with the first call; null if all
/// ranks share a process. Fails as find_backend and as ProcessBackend::join.
process::ControlChannel* channel_of(std::string_view name);
/// Fails with Value, naming the known ones, for an unknown name. The entry does not move.
const BackendEntry& find_backend(std::string_view name);

}  // namespace shardlab
