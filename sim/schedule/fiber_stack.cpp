// Stacks are made in one mapping per reservation, with a guard below each: running over the end
// stops the program instead of writing into another rank's stack. A guard is as large as a stack,
// and 16 MiB at least, for a local array may begin far below the end: code that is compiled without
// -fstack-clash-protection touches none of the pages between. Pages cost memory only once they are
// touched.
#include "sim/schedule/fiber_stack.h"

#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

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

struct IdlePool {
  std::size_t asked_bytes;
  std::unique_ptr<StackPool> pool;
};

// Pools of ended worlds, that of the latest one last.
struct IdleStacks {
  std::mutex mutex;
  std::vector<IdlePool> pools;
};

// At most this many pools keep this many stacks each: together a quarter of the maps that Linux
// lets a process have. A newer one takes the place of the oldest.
constexpr std::size_t kMostIdlePools = 4;
constexpr std::size_t kMostIdleStacks = 2048;

// Never destroyed: a world may end while the process does.
IdleStacks& idle_stacks() {
  static auto* const idle = new IdleStacks;
  return *idle;
}

}  // namespace

StackPool::StackPool(std::size_t size_bytes)
    : page_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      size_bytes_((size_bytes * sanitizer::kStackFactor + page_bytes_ - 1) / page_bytes_ *
                  page_bytes_),
      guard_bytes_(std::max(size_bytes_, kLeastGuardBytes) - kOddPages * page_bytes_) {
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
      // Stacks that were made stay usable for smaller worlds.
      refuse(bottoms_.size(), count, size_bytes_, errno);
    }
    bottoms_.push_back(guard + guard_bytes_);
  }
}

void StackPool::forget(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sanitizer::unpoison({bottoms_[i], size_bytes_});
  const std::size_t stride = guard_bytes_ + size_bytes_;
  for (const Slab& slab : slabs_) {
    const std::size_t stacks = std::min(count, slab.size_bytes / stride);
    if (stacks > 0) forget_contents(slab.map, stacks * stride);
    count -= stacks;
  }
}

bool StackPool::in_guard(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return std::any_of(bottoms_.begin(), bottoms_.end(), [&](const std::byte* bottom) {
    return at < bottom && at >= bottom - guard_bytes_;
  });
}

LentStacks::LentStacks(std::size_t size_bytes) : size_bytes_(size_bytes) {
  IdleStacks& idle = idle_stacks();
  const std::lock_guard lock(idle.mutex);
  const auto found = std::ranges::find(idle.pools, size_bytes, &IdlePool::asked_bytes);
  if (found == idle.pools.end()) {
    pool_ = std::make_unique<StackPool>(size_bytes);
  } else {
    pool_ = std::move(found->pool);
    idle.pools.erase(found);
  }
}

void LentStacks::reserve(std::size_t count) {
  if (count > kMostIdleStacks) {  // all maps may be needed
    IdleStacks& idle = idle_stacks();
    const std::lock_guard lock(idle.mutex);
    idle.pools.clear();
  }
  pool_->reserve(count);
  used_ = std::max(used_, count);
}

LentStacks::~LentStacks() {
  if (pool_->size() > kMostIdleStacks) return;
  pool_->forget(used_);
  IdleStacks& idle = idle_stacks();
  const std::lock_guard lock(idle.mutex);
  if (idle.pools.size() == kMostIdlePools) idle.pools.erase(idle.pools.begin());
  idle.pools.push_back({size_bytes_, std::move(pool_)});
}

}  // namespace shardlab
