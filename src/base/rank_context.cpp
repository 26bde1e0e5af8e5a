#include "base/rank_context.h"

#include "base/error.h"

namespace shardlab {

namespace {
// The only thread_local of the code base; schedulers write it at each switch.
thread_local RankContext* running_rank = nullptr;
}  // namespace

// Fibers of one OS thread share the variable, each switch sets it: no race, but TSan cannot know.
__attribute__((noinline, no_sanitize("thread"))) RankContext* current_rank_or_null() {
  return running_rank;
}

__attribute__((noinline)) RankContext& current_rank() {
  RankContext* context = current_rank_or_null();
  check_invariant(context != nullptr, "this call needs a rank: it was made outside of a world");
  return *context;
}

__attribute__((noinline, no_sanitize("thread"))) RankContext* set_current_rank(
    RankContext* context) {
  RankContext* previous = running_rank;
  running_rank = context;
  return previous;
}

}  // namespace shardlab
