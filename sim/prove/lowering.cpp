// The passes of torch.distributed.pipelining.schedules 2.15, in its order: _add_unshard_reshard,
// _add_reduce_grad, _add_send_recv, _add_wait_send, _defer_recv_ops.
#include "sim/prove/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace shardlab {

namespace {

using Kind = PipelineAction::Kind;
using Row = std::vector<PipelineCell>;

// Stages that a rank holds whole at a time.
constexpr std::size_t kMostActive = 3;

std::vector<std::int32_t> next_stages(const Row& row, std::size_t from) {
  std::vector<std::int32_t> stages;
  for (std::size_t i = from; i < row.size() && stages.size() < kMostActive; ++i) {
    for (const PipelineAction& action : row[i]) {
      if (std::ranges::find(stages, action.stage) == stages.end()) stages.push_back(action.stage);
    }
  }
  return stages;
}

Row with_shards(const Row& row) {
  Row result;
  std::vector<std::int32_t> active;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::vector<std::int32_t> wanted = next_stages(row, i);
    std::erase_if(active, [&](std::int32_t stage) {
      if (std::ranges::find(wanted, stage) != wanted.end()) return false;
      result.push_back({{Kind::kReshard, stage}});
      return true;
    });
    for (const std::int32_t stage : wanted) {
      if (std::ranges::find(active, stage) != active.end()) continue;
      active.push_back(stage);
      result.push_back({{Kind::kUnshard, stage}});
    }
    result.push_back(row[i]);
  }
  for (const std::int32_t stage : active) result.push_back({{Kind::kReshard, stage}});
  return result;
}

Row with_reductions(const Row& row, std::int32_t microbatches) {
  Row result;
  std::map<std::int32_t, std::int32_t> backwards;
  for (const PipelineCell& cell : row) {
    result.push_back(cell);
    for (const auto& [kind, stage, microbatch] : cell) {
      if (kind != Kind::kBackward && kind != Kind::kBackwardWeight) continue;
      if (++backwards[stage] != microbatches) continue;
      result.push_back({{Kind::kReduceGradient, stage}});
      result.push_back({{Kind::kWaitReduceGradient, stage}});
    }
  }
  return result;
}

bool is_backward(Kind kind) { return kind == Kind::kBackward || kind == Kind::kBackwardInput; }

// A rank's receives are placed by its senders, when they compute.
class Placing {
 public:
  explicit Placing(PipelineSchedule& schedule)
      : schedule_(schedule), placed_(schedule.ranks.size()), done_(schedule.ranks.size()) {}

  void run() {
    std::vector<std::size_t> next(schedule_.ranks.size());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        const Row& row = schedule_.ranks[rank];
        if (next[rank] == row.size() || !ready(rank, row[next[rank]])) continue;
        place(rank, row[next[rank]++]);
        progress = true;
      }
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const Row& row = schedule_.ranks[rank];
      if (next[rank] == row.size()) continue;
      // Cells of the file alone are counted.
      const auto index =
          std::ranges::count_if(row.begin(), row.begin() + next[rank],
                                [](auto& cell) { return cell[0].kind <= Kind::kBackwardWeight; });
      schedule_.refused.push_back({static_cast<std::int32_t>(rank),
                                   static_cast<std::int32_t>(index), to_string(row[next[rank]]),
                                   "its input is computed nowhere before it"});
    }
    if (schedule_.refused.empty()) schedule_.ranks = std::move(placed_);
  }

 private:
  bool ready(std::size_t rank, const PipelineCell& cell) const {
    return std::ranges::all_of(cell, [&](const PipelineAction& action) {
      const auto done = [&](Kind kind, std::int32_t stage) {
        return done_[rank].contains({kind, stage, action.microbatch});
      };
      const std::int32_t stage = action.stage;
      if (action.kind == Kind::kForward && stage > 0) {
        return done(Kind::kReceiveForward, stage) || done(Kind::kForward, stage - 1);
      }
      if (!is_backward(action.kind) || stage + 1 == schedule_.stages()) return true;
      return done(Kind::kReceiveBackward, stage) || done(Kind::kBackward, stage + 1) ||
             done(Kind::kBackwardInput, stage + 1);
    });
  }

  void place(std::size_t rank, const PipelineCell& cell) {
    placed_[rank].push_back(cell);
    for (const PipelineAction& action : cell) {
      done_[rank].insert(action);
      const bool forward = action.kind == Kind::kForward;
      if (!forward && !is_backward(action.kind)) continue;
      PipelineAction send = action, receive = action;
      send.kind = forward ? Kind::kSendForward : Kind::kSendBackward;
      receive.kind = forward ? Kind::kReceiveForward : Kind::kReceiveBackward;
      receive.stage += forward ? 1 : -1;
      const std::int32_t peer = schedule_.peer_of(send);
      if (peer < 0 || peer == static_cast<std::int32_t>(rank)) continue;
      const auto other = static_cast<std::size_t>(peer);
      placed_[rank].push_back({send});
      done_[rank].insert(send);
      placed_[other].push_back({receive});
      done_[other].insert(receive);
    }
  }

  PipelineSchedule& schedule_;
  std::vector<Row> placed_;
  std::vector<std::set<PipelineAction>> done_;
};

Row with_waits(const Row& row) {
  Row result;
  std::vector<PipelineAction> pending;
  for (const PipelineCell& cell : row) {
    result.push_back(cell);
    for (PipelineAction action : cell) {
      const bool sends = action.kind == Kind::kSendForward || action.kind == Kind::kSendBackward;
      if (sends) pending.push_back(action);
      if (!is_backward(action.kind)) continue;
      action.kind = Kind::kSendForward;
      if (std::erase(pending, action) == 0) continue;
      action.kind = Kind::kWaitSendForward;
      result.push_back({action});
    }
  }
  for (PipelineAction action : pending) {
    action.kind =
        action.kind == Kind::kSendForward ? Kind::kWaitSendForward : Kind::kWaitSendBackward;
    result.push_back({action});
  }
  return result;
}

// A receive waits for its use; before a send to a higher rank all from that rank are placed.
Row deferred(const PipelineSchedule& schedule, std::int32_t rank, const Row& row) {
  Row result;
  std::vector<PipelineAction> waiting;
  const auto place = [&](const auto& now) {
    std::erase_if(waiting, [&](const PipelineAction& receive) {
      if (!now(receive)) return false;
      result.push_back({receive});
      return true;
    });
  };
  for (const PipelineCell& cell : row) {
    const PipelineAction& first = cell[0];
    if (first.kind == Kind::kReceiveForward || first.kind == Kind::kReceiveBackward) {
      waiting.push_back(first);
      continue;
    }
    const bool sends = first.kind == Kind::kSendForward || first.kind == Kind::kSendBackward;
    const std::int32_t peer = sends ? schedule.peer_of(first) : -1;
    if (rank < peer) {
      place([&](const PipelineAction& receive) { return schedule.peer_of(receive) == peer; });
    }
    for (PipelineAction used : cell) {
      const bool forward = used.kind == Kind::kForward;
      if (!forward && !is_backward(used.kind)) continue;
      used.kind = forward ? Kind::kReceiveForward : Kind::kReceiveBackward;
      place([&](const PipelineAction& receive) { return receive == used; });
    }
    result.push_back(cell);
  }
  return result;
}

}  // namespace

void lower(PipelineSchedule& schedule, Receives receives) {
  std::int32_t microbatches = 0;
  bool computes_alone = true;
  for (const Row& row : schedule.ranks) {
    for (const PipelineCell& cell : row) {
      for (const PipelineAction& action : cell) {
        microbatches = std::max(microbatches, action.microbatch + 1);
        computes_alone = computes_alone && action.microbatch >= 0;
      }
    }
  }
  if (computes_alone && schedule.rank_of_stage.size() > schedule.ranks.size()) {
    for (Row& row : schedule.ranks) row = with_reductions(with_shards(row), microbatches);
  }
  Placing(schedule).run();
  if (!schedule.refused.empty()) return;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    Row& row = schedule.ranks[rank];
    row = with_waits(row);
    if (receives == Receives::kDeferred) {
      row = deferred(schedule, static_cast<std::int32_t>(rank), row);
    }
  }
}

}  // namespace shardlab
