// The backends of this build are in the registry from the start; others join by name.
#include "sim/world/backends.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "backends/mpi/mpi.h"
#include "backends/nccl/nccl.h"
#include "backends/threads/threads.h"
#include "base/error.h"
#include "base/text.h"

namespace shardlab {

namespace {

constexpr ProcessBackend kMpi = {
    .join = mpi::join,
    .make = mpi::make_backend,
    .libraries = mpi::libraries,
    .launcher = mpi::launcher,
};

constexpr ProcessBackend kNccl = {
    .join = nccl::join,
    .make = nccl::make_backend,
    .libraries = nccl::libraries,
    .launcher = nccl::launcher,
};

// Entries do not move when more are added.
struct Registry {
  std::mutex mutex;
  std::deque<BackendEntry> entries = {
      {.name = "threads", .make = make_threads_backend, .processes = nullptr},
      {.name = "mpi", .make = nullptr, .processes = &kMpi},
      {.name = "fake", .make = nullptr, .processes = nullptr, .by_class = true},
      {.name = "nccl", .make = nullptr, .processes = &kNccl},
  };

  const BackendEntry* find(std::string_view name) const {
    const auto found = std::ranges::find(entries, name, &BackendEntry::name);
    return found == entries.end() ? nullptr : &*found;
  }
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

void register_backend(std::string name, BackendFactory factory) {
  const std::lock_guard lock(registry().mutex);
  if (name.empty() || registry().find(name) != nullptr) {
    throw Error(ErrorKind::kValue, fmt::format("the backend name '{}' is taken or empty", name))
        .with("fix", "register it once, under a name of its own");
  }
  registry().entries.push_back(
      {.name = std::move(name), .make = std::move(factory), .processes = nullptr});
}

std::vector<std::string_view> backend_names() {
  const std::lock_guard lock(registry().mutex);
  std::vector<std::string_view> names;
  for (const BackendEntry& entry : registry().entries) names.push_back(entry.name);
  return names;
}

bool is_shape_only(std::string_view name) {
  const std::lock_guard lock(registry().mutex);
  const BackendEntry* entry = registry().find(name);
  return entry != nullptr && entry->by_class;
}

bool can_share_kernels(std::string_view name) {
  const BackendEntry& entry = find_backend(name);
  return entry.processes == nullptr && !entry.by_class;
}

process::ControlChannel* channel_of(std::string_view name) {
  const ProcessBackend* processes = find_backend(name).processes;
  return processes == nullptr ? nullptr : &processes->join();
}

const BackendEntry& find_backend(std::string_view name) {
  {
    const std::lock_guard lock(registry().mutex);
    if (const BackendEntry* entry = registry().find(name)) return *entry;
  }
  throw Error(ErrorKind::kValue, fmt::format("no backend named {}", name))
      .with("fix", fmt::format("one of: {}", text_of_list(backend_names(), ", ")));
}

}  // namespace shardlab
