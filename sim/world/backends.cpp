#include "sim/world/backends.h"

#include "backends/threads/threads.h"
#include "base/error.h"

namespace shardlab {

namespace {

struct BackendRow {
  std::string_view name;
  BackendFactory make;
};
constexpr BackendRow kBackends[] = {
    {"threads", make_threads_backend},
};

}  // namespace

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const BackendRow& row : kBackends) names.push_back(row.name);
  return names;
}

BackendFactory find_backend(std::string_view name) {
  for (const BackendRow& row : kBackends) {
    if (row.name == name) return row.make;
  }
  for (const std::string_view later : {"fake", "mpi", "nccl"}) {
    if (name != later) continue;
    throw Error(ErrorKind::kUnsupported, fmt::format("not yet supported: backend {}", name))
        .with("fix", fmt::format("one of: {}", fmt::join(backend_names(), ", ")));
  }
  throw Error(ErrorKind::kValue, fmt::format("no backend named {}", name))
      .with("fix", fmt::format("one of: {}", fmt::join(backend_names(), ", ")));
}

}  // namespace shardlab
