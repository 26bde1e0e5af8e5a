// One rank on the calling thread: nothing to schedule.
#include "sim/schedule/single_scheduler.h"

#include "base/error.h"

namespace shardlab {

void SingleScheduler::run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) {
  check_invariant(rank_ >= 0 && rank_ < ranks, "the rank of this process is one of the world's");
  running_ = true;
  body(rank_);
  running_ = false;
}

}  // namespace shardlab
