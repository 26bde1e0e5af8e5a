// The double gives up when nothing moved for a while, so that a test which hangs ends with a
// reason.
#include "tests/nccl/double/deadline.h"

#include <cstdlib>

namespace shardlab::nccl_double {

std::int64_t deadline_milliseconds() {
  const char* text = std::getenv("SHARDLAB_NCCL_DOUBLE_DEADLINE_MS");
  const long milliseconds = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return milliseconds > 0 ? milliseconds : 10'000;
}

void Deadline::restart() {
  end_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_milliseconds());
}

bool Deadline::passed() const { return std::chrono::steady_clock::now() > end_; }

}  // namespace shardlab::nccl_double
