// MAP_STACK exists on Linux and the BSDs, the limit on maps on Linux: macOS, which has not been
// tried, has neither.
#include "sim/schedule/stack_map.h"

#include <sys/mman.h>

#include <fstream>

namespace shardlab {

namespace {

#ifdef MAP_STACK
constexpr int kForStacks = MAP_STACK;
#else
constexpr int kForStacks = 0;
#endif

}  // namespace

void* map_stacks(std::size_t size_bytes) {
  void* map = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | kForStacks, -1, 0);
  return map == MAP_FAILED ? nullptr : map;
}

void forget_contents(void* map, std::size_t size_bytes) { madvise(map, size_bytes, MADV_DONTNEED); }

std::size_t most_maps() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  std::size_t maps = 0;
  file >> maps;
  return maps;
}

}  // namespace shardlab
