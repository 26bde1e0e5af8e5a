#include "base/rank_context.h"

#include "base/error.h"

namespace shardlab {

namespace {
// The only thread_local of the code base; schedulers write it at each switch.
thread_local RankContext* running_rank = nullptr;
}  // namespace

__attribute__((noinline)) RankContext* current_rank_or_null() { return running_rank; }

__attribute__((noinline)) RankContext& current_rank() {
  RankContext* context = current_rank_or_null();
  check_invariant(context != nullptr, "this call needs a rank: it was made outside of a world");
  return *context;
}

__attribute__((noinline)) RankContext* set_current_rank(RankContext* context) {
  return std::exchange(running_rank, context);
}

}  // namespace shardlab
