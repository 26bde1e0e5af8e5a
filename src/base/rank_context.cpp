// The one thread_local of the library: the context of the running rank, which schedulers set at
// each switch.
#include "base/rank_context.h"

#include "base/error.h"

namespace shardlab {

std::string place_text(const SourcePosition& position) {
  if (!position.in_cpp()) return fmt::format("line {}", position.line);
  return fmt::format("{}:{}", position.file, position.line);
}

thread_local constinit RankContext* running_rank = nullptr;

#ifdef __SANITIZE_THREAD__
// Fibers of one OS thread share the variable, each switch sets it: no race, but TSan cannot detect
// that.
__attribute__((noinline, no_sanitize("thread"))) RankContext* current_rank_or_null() {
  return running_rank;
}

__attribute__((noinline, no_sanitize("thread"))) RankContext* set_current_rank(
    RankContext* context) {
  RankContext* previous = running_rank;  // std::exchange would be instrumented
  running_rank = context;
  return previous;
}
#endif

void refuse_outside_of_rank() {
  fail(ErrorKind::kRuntime,
       Fix{"make it inside of spmd(ranks, [](RankContext&) { ... }), or of a SHARD_TEST"},
       "this call runs on a rank, and was made outside of one");
}

}  // namespace shardlab
