#include "sim/world/backends.h"

#include "backends/mpi/mpi.h"
#include "backends/nccl/nccl.h"
#include "backends/threads/threads.h"
#include "base/error.h"

namespace shardlab {

namespace {

constexpr ProcessBackend kMpi = {
    .join = mpi::join,
    .make = mpi::make_backend,
    .launcher = mpi::launcher,
};

constexpr ProcessBackend kNccl = {
    .join = nccl::join,
    .make = nccl::make_backend,
    .launcher = nccl::launcher,
};

constexpr BackendEntry kBackends[] = {
    {.name = "threads", .make = make_threads_backend},
    {.name = "mpi", .processes = &kMpi},
    {.name = "fake"},
    {.name = "nccl", .processes = &kNccl},
};

}  // namespace

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const BackendEntry& entry : kBackends) names.push_back(entry.name);
  return names;
}

bool is_shape_only(std::string_view name) {
  for (const BackendEntry& entry : kBackends) {
    if (entry.name == name) return entry.make == nullptr && entry.processes == nullptr;
  }
  return false;
}

const BackendEntry& find_backend(std::string_view name) {
  for (const BackendEntry& entry : kBackends) {
    if (entry.name == name) return entry;
  }
  throw Error(ErrorKind::kValue, fmt::format("no backend named {}", name))
      .with("fix", fmt::format("one of: {}", fmt::join(backend_names(), ", ")));
}

}  // namespace shardlab
