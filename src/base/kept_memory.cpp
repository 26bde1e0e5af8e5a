// Values of a verified run come and go: with fresh pages for each, clearing them takes longer than
// the arithmetic. Small pieces go back to their neighbours at once: each large one would else walk
// over all of them.
#include "base/kept_memory.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace shardlab {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MXFAST, 0);
#endif
}

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace shardlab
