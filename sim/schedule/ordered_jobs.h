// ordered_jobs.h - independent jobs on several threads, their results in order.
#pragma once

#include <cstddef>
#include <functional>

namespace shardlab {

/// Calls job(0), ..., job(count - 1), up to `workers` at once, and done(0), ..., done(count - 1) in
/// this order on the calling thread, each as soon as its job and all before it have ended. Jobs do
/// not throw. With one worker everything runs on the calling thread.
void run_in_order(std::size_t count, std::size_t workers,
                  const std::function<void(std::size_t)>& job,
                  const std::function<void(std::size_t)>& done);

}  // namespace shardlab
