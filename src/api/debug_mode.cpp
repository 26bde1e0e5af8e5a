// The counter is put in front of the rank's observer, and removed again at the end.
#include "api/debug_mode.h"

#include <numeric>

#include "base/error.h"

namespace shardlab {

void CommDebugMode::enter() {
  if (scope_) {
    fail(ErrorKind::kRuntime, Fix{"make one for each part: with CommDebugMode() as inner"},
         "this debug mode counts already");
  }
  counts_ = {};
  counter_.emplace(observer_to_tell(), *this);
  scope_.emplace(*counter_);
}

void CommDebugMode::leave() {
  scope_.reset();
  counter_.reset();
}

std::int64_t CommDebugMode::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

}  // namespace shardlab
