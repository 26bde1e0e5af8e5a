// Stacks come in one mapping per reservation, with a guard below each: running over the end stops
// the program instead of writing into another rank's stack. A guard is as large as a stack, for a
// local array may begin far below the end. Pages cost memory only once they are touched.
#include "sim/schedule/fiber_stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "sim/schedule/stack_map.h"
#include "sim/schedule/stack_overflow.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse(std::size_t made, std::size_t wanted, std::size_t size_bytes, int cause) {
  const std::size_t maps = most_maps();
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
                  page_bytes_),
      guard_bytes_(std::max(size_bytes_, (kOddPages + 1) * page_bytes_) - kOddPages * page_bytes_) {
  watch_guards(*this);
}

StackPool::~StackPool() {
  forget_guards(*this);
  for (std::byte* bottom : bottoms_) sanitizer::unpoison({bottom, size_bytes_});
  for (const Slab& slab : slabs_) munmap(slab.map, slab.size_bytes);
}

void StackPool::reserve(std::size_t count) {
  if (bottoms_.size() >= count) return;
  const std::size_t stride = guard_bytes_ + size_bytes_;
  const std::size_t slab_bytes = (count - bottoms_.size()) * stride;
  void* map = map_stacks(slab_bytes);
  if (map == nullptr) refuse(bottoms_.size(), count, size_bytes_, errno);
  slabs_.push_back({map, slab_bytes});
  for (auto* guard = static_cast<std::byte*>(map); bottoms_.size() < count; guard += stride) {
    if (mprotect(guard, guard_bytes_, PROT_NONE) != 0) {
      // What is made stays usable for smaller worlds.
      refuse(bottoms_.size(), count, size_bytes_, errno);
    }
    bottoms_.push_back(guard + guard_bytes_);
  }
}

bool StackPool::in_guard(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return std::any_of(bottoms_.begin(), bottoms_.end(), [&](const std::byte* bottom) {
    return at < bottom && at >= bottom - guard_bytes_;
  });
}

}  // namespace shardlab
