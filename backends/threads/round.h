// round.h - one collective of one group: the table in which its ranks publish their calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/threads/call.h"
#include "base/error.h"

namespace shardlab::threads {

/// Guarded by its group's mutex, but for `state`. Once `state` says done or failed, nobody changes
/// it until the last reference besides the group's is gone.
class Round final : public Counted {
 public:
  enum class State : std::uint8_t { kGathering, kComputing, kDone, kFailed };
  struct Slot {
    Call* call = nullptr;
    bool blocked = false;  ///< must be woken
  };

  std::atomic<State> state{State::kGathering};
  std::uint64_t sequence = 0;
  std::size_t arrived = 0;
  std::vector<Slot> slots;         ///< by group rank
  std::vector<Ref<Counted>> kept;  ///< pending calls, which must live until the round is over
  std::optional<Error> error;      ///< when failed

  void reset(std::uint64_t next, std::size_t size) {
    state.store(State::kGathering, std::memory_order_relaxed);
    sequence = next;
    arrived = 0;
    slots.assign(size, Slot{});
    kept.clear();
    error.reset();
  }
};

}  // namespace shardlab::threads
