// round.h - one collective of one group: the table in which its ranks publish their calls.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/shared/call.h"

namespace shardlab::threads {

using backends::Call;

/// A pending call, which must live until its round is over.
struct Kept {
  std::size_t rank = 0;  ///< in the group
  Ref<Counted> call;
};

/// Guarded by its group's mutex. While it is computed, its calls belong to the rank that computes.
struct Round {
  std::uint64_t sequence = 0;
  std::size_t arrived = 0;
  bool computing = false;
  bool torn = false;                     ///< all have entered, but their calls do not fit
  std::vector<Call*> calls;              ///< by group rank; null: has not entered
  std::vector<std::uint8_t> blocked;     ///< by group rank: must be woken
  std::vector<Kept> kept;                ///< those of `calls` that are asynchronous
  Ref<const backends::Failure> failure;  ///< abandoned: it will never be completed

  void reset(std::uint64_t next, std::size_t size) {
    sequence = next;
    arrived = 0;
    computing = torn = false;
    calls.assign(size, nullptr);
    blocked.assign(size, 0);
    failure = nullptr;
  }
};

}  // namespace shardlab::threads
