// diagram.h - the steps of ranks over columns of equal time: a picture of who waits for whom, for
// the page of a run. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/prove/steps.h"

namespace shardlab {

struct StepDiagram {
  /// A step occupies columns from <= c < to; equal: it takes no time. -1: it never begins, or never
  /// ends.
  struct Span {
    std::int32_t from = -1, to = -1;
  };
  /// A send, and the receive that gets its message.
  struct Message {
    std::int32_t from_rank = 0, from_step = 0, to_rank = 0, to_step = 0;
  };

  std::vector<std::vector<Span>> spans;  ///< by rank and step
  std::vector<Message> messages;
};

/// Each step as early as it can be, with buffers for every send. `message`: columns that a message
/// or a collective takes. `work`: columns that a step without messages takes; null: 0.
/// Example: rank 0 sends, rank 1 receives, message 1: both steps are [0, 1).
StepDiagram diagram_of(
    const RankSteps& program, std::int32_t message,
    const std::function<std::int32_t(std::int32_t rank, std::int32_t step)>& work);

}  // namespace shardlab
