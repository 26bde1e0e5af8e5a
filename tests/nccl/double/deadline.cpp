// The double waits forever where NCCL would, but for its own deadline: then it ends the process,
// with the reason. It invents no error that NCCL would not return: code that relied on one would
// hang with NCCL.
#include "tests/nccl/double/deadline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
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

void forbid(std::string_view text) {
  constexpr int kCodeOfEnd = 9;
  fmt::print(stderr, "nccl double: {}\n", text);
  std::fflush(stderr);
  _exit(kCodeOfEnd);
}

void hang(std::string_view text) { forbid(fmt::format("{}; NCCL would wait for ever", text)); }

}  // namespace shardlab::nccl_double
