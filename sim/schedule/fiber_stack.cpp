// Stacks come in one mapping per reservation, with a guard page below each: running over the end
// stops the program instead of writing into another rank's stack. Pages cost memory only once they
// are touched.
#include "sim/schedule/fiber_stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "base/error.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse(std::size_t made, std::size_t wanted, std::size_t size_bytes, int cause) {
  std::ifstream file("/proc/sys/vm/max_map_count");
  std::size_t maps = 0;
  file >> maps;
  Error error(ErrorKind::kRuntime,
              fmt::format("no memory map for the stack of rank {} of {} ({} KiB each): {}", made,
                          wanted, size_bytes / 1024, std::strerror(cause)));
  if (maps > 0) {
    error.with("limit", fmt::format("vm.max_map_count is {} and a rank takes two maps: about {} "
                                    "ranks fit",
                                    maps, maps / 2));
    error.with("fix",
               fmt::format("fewer ranks, or sysctl -w vm.max_map_count={}", 2 * wanted + 65536));
  }
  throw error;
}

}  // namespace

StackPool::StackPool(std::size_t size_bytes)
    : page_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      size_bytes_((size_bytes * sanitizer::kStackFactor + page_bytes_ - 1) / page_bytes_ *
                  page_bytes_) {}

StackPool::~StackPool() {
  for (std::byte* bottom : bottoms_) sanitizer::unpoison({bottom, size_bytes_});
  for (const Slab& slab : slabs_) munmap(slab.map, slab.size_bytes);
}

void StackPool::reserve(std::size_t count) {
  if (bottoms_.size() >= count) return;
  const std::size_t stride = page_bytes_ + size_bytes_;
  const std::size_t slab_bytes = (count - bottoms_.size()) * stride;
  void* map = mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (map == MAP_FAILED) refuse(bottoms_.size(), count, size_bytes_, errno);
  slabs_.push_back({map, slab_bytes});
  for (auto* guard = static_cast<std::byte*>(map); bottoms_.size() < count; guard += stride) {
    if (mprotect(guard, page_bytes_, PROT_NONE) != 0) {
      // What is made stays usable for smaller worlds.
      refuse(bottoms_.size(), count, size_bytes_, errno);
    }
    bottoms_.push_back(guard + page_bytes_);
  }
}

}  // namespace shardlab
