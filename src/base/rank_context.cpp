// The one thread_local of the library: the context of the running rank, which schedulers set at
// each switch.
#include "base/rank_context.h"

#include "base/error.h"

namespace shardlab {

thread_local constinit RankContext* running_rank = nullptr;

#ifdef __SANITIZE_THREAD__
// Fibers of one OS thread share the variable, each switch sets it: no race, but TSan cannot know.
__attribute__((noinline, no_sanitize("thread"))) RankContext* current_rank_or_null() {
  return running_rank;
}

__attribute__((noinline, no_sanitize("thread"))) RankContext* set_current_rank(
    RankContext* context) {
  RankContext* previous = running_rank;  // std::exchange would be looked at
  running_rank = context;
  return previous;
}
#endif

void refuse_outside_of_rank() {
  invariant_violated("this call needs a rank: it was made outside of a world", __builtin_FILE(),
                     __builtin_LINE());
}

}  // namespace shardlab
