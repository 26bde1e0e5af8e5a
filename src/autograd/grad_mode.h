// grad_mode.h - whether calls are recorded for backward: PyTorch's no_grad() and enable_grad().
#pragma once

#include <cstdint>
#include <utility>

#include "base/rank_context.h"

namespace shardlab {

/// Whether the running rank records calls. Without recording, an op on a tensor that requires a
/// gradient gives a tensor that requires none; writes to leaves are allowed then.
inline bool grad_enabled() { return (current_rank().mode & kModeAutograd) != 0; }
/// Until it is set again, for the running rank alone: other ranks have modes of their own. Both
/// fail with Runtime outside of a rank.
inline void set_grad_enabled(bool enabled) {
  std::uint32_t& mode = current_rank().mode;
  mode = enabled ? mode | kModeAutograd : mode & ~std::uint32_t{kModeAutograd};
}

/// While one lives, the running rank records calls or does not. They nest.
class GradModeScope {
 public:
  /// Begins and ends on one rank.
  explicit GradModeScope(bool enabled) : before_(grad_enabled()) { set_grad_enabled(enabled); }
  ~GradModeScope() { set_grad_enabled(before_); }
  GradModeScope& operator=(GradModeScope&&) = delete;

 private:
  bool before_;
};

/// PyTorch's: while one lives, nothing is recorded.
class NoGradGuard : public GradModeScope {
 public:
  NoGradGuard() : GradModeScope(false) {}
};

/// Runs `body` while nothing is recorded, and returns its result:
///   no_grad([&] { w -= lr * w.grad(); });
template <typename Body>
decltype(auto) no_grad(Body&& body) {
  const NoGradGuard guard;
  return std::forward<Body>(body)();
}

}  // namespace shardlab
