// memory_timeline.h - the memory that one rank held in the course of its program.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory_account.h"

namespace shardlab {

/// The most that was held while the rank allocated at one line in one pass.
struct MemoryPoint {
  std::int32_t line = 0;  ///< of the scenario file; in backward that of the op whose gradient runs
  Pass pass = Pass::kForward;
  std::int64_t bytes = 0;
  HeldBytes held{};
};

/// Keeps a point for each stay, in the order of execution. Listens to one account.
class MemoryTimeline : public MemoryListener {
 public:
  /// A new point when more is held at another line or in another pass; memory freed on the way
  /// shows in the next point.
  void changed(const MemoryAccount& account) override;
  /// Forgets all points.
  void clear() { *this = {}; }
  const std::vector<MemoryPoint>& points() const { return points_; }

 private:
  // One for each stay, however many allocations it has.
  std::vector<MemoryPoint> points_;
  std::int64_t last_ = 0;
};

/// While one lives, the account calls the listener, which may be null.
class ListeningScope {
 public:
  /// Both outlive the scope. One scope per account at a time: afterwards the account has no
  /// listener.
  ListeningScope(MemoryAccount& account, MemoryListener* listener) : account_(account) {
    account_.listener = listener;
  }
  ~ListeningScope() { account_.listener = nullptr; }
  ListeningScope& operator=(ListeningScope&&) = delete;

 private:
  MemoryAccount& account_;
};

}  // namespace shardlab
