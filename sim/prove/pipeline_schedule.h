// pipeline_schedule.h - a pipeline schedule as CSV, in the words of torch.distributed.pipelining: a
// row is a rank, a cell an action, "3F0", "2SEND_B5", "(4F1;5B0)OVERLAP_F_B".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/prove/steps.h"

namespace shardlab {

/// An action of one stage, for one microbatch.
struct PipelineAction {
  enum class Kind : std::uint8_t {
    kForward,
    kBackward,  ///< of input and weights
    kBackwardInput,
    kBackwardWeight,
    kSendForward,
    kSendBackward,
    kReceiveForward,
    kReceiveBackward,
    kWaitSendForward,
    kWaitSendBackward,
    kUnshard,
    kReshard,
    kReduceGradient,
    kWaitReduceGradient,
  };
  Kind kind = Kind::kForward;
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;  ///< -1: of all

  auto operator<=>(const PipelineAction&) const = default;
};
/// "F", "SEND_B", ...
std::string_view word_of(PipelineAction::Kind kind);
std::string to_string(const PipelineAction& action);

/// A cell: an action, or several that a rank overlaps.
using PipelineCell = std::vector<PipelineAction>;
std::string to_string(const PipelineCell& cell);

/// An action that cannot be where it is.
struct RefusedAction {
  std::int32_t rank = 0;
  std::int32_t index = 0;  ///< the cell, from 0
  std::string action;
  std::string reason;
};

struct PipelineSchedule {
  std::vector<std::vector<PipelineCell>> ranks;
  std::vector<std::int32_t> rank_of_stage;
  std::vector<RefusedAction> refused;  ///< if there are any, the rest may be incomplete

  std::int32_t stages() const { return static_cast<std::int32_t>(rank_of_stage.size()); }
  /// The rank with which a message is exchanged; -1: there is no such stage.
  std::int32_t peer_of(const PipelineAction& action) const;
};

enum class Receives : std::uint8_t { kEarly, kDeferred };

/// Reads compute_only or compute_comms; empty cells are left out. A schedule without messages is
/// lowered as torch does it: each receive is placed where its sender's computation is placed, or as
/// late as defer_pp_recv puts it; each forward send is waited for behind its backward.
PipelineSchedule read_pipeline_schedule(std::string_view csv, Receives receives);
/// Adds to computations what torch's runtime adds: sends, receives and waits; where a rank has
/// several stages also UNSHARD, RESHARD and REDUCE_GRAD, which decide how far ranks are when a
/// receive is placed.
void lower(PipelineSchedule& schedule, Receives receives);

/// A schedule as far as it is known before anything runs, and its steps.
struct CheckedSchedule {
  std::vector<RefusedAction> refused;  ///< those of reading, too
  std::vector<std::int64_t> live;  ///< by rank: the most microbatches whose activations it holds
  RankSteps steps;                 ///< one of each action; a step's place is that of its cell
};
CheckedSchedule check_schedule(const PipelineSchedule& schedule);

}  // namespace shardlab
