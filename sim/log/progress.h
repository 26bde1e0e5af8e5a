// progress.h - the place of a run, for readers while it runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace shardlab {

/// The purpose of a scenario's run.
enum class RunPhase : std::uint8_t { kNone, kRanks, kOneDevice };

/// Written by the reporting rank, one run at a time; read by other threads and by signal handlers:
/// therefore nothing in it takes a lock.
struct Progress {
  std::atomic<RunPhase> phase{RunPhase::kNone};
  std::atomic<std::int32_t> line{0};   ///< of the source, of the last call that began
  std::atomic<std::int64_t> calls{0};  ///< of ops, since the phase began
  // A signal handler may read these only because no lock is behind them.
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);

  /// A new phase. Readers may see parts of the old and the new one: their output is only a hint.
  void begin(RunPhase next) {
    phase.store(next, std::memory_order_relaxed);
    line.store(0, std::memory_order_relaxed);
    calls.store(0, std::memory_order_relaxed);
  }
};

}  // namespace shardlab
