// One pass over each row knows what was computed, received and sent so far: what is refused, and
// the steps of the others' proof.
#include "sim/prove/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

namespace {

using Kind = PipelineAction::Kind;

// In the order of the enumeration.
constexpr std::string_view kWords[] = {"F",           "B",
                                       "I",           "W",
                                       "SEND_F",      "SEND_B",
                                       "RECV_F",      "RECV_B",
                                       "WAIT_SEND_F", "WAIT_SEND_B",
                                       "UNSHARD",     "RESHARD",
                                       "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::size_t kMostShown = 40;  // characters of a damaged cell
constexpr std::string_view kForm =
    "is no action; write [stage][kind][microbatch], as 0F0, 1SEND_B3 or (4F1;5B0)OVERLAP_F_B";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// A cell may stand in quotes, as in every CSV.
std::string_view unquoted(std::string_view cell) {
  const bool quoted = cell.size() > 1 && cell.front() == '"' && cell.back() == '"';
  return quoted ? trimmed(cell.substr(1, cell.size() - 2)) : cell;
}

// Takes up to six digits from the front; -1: there are none, or more.
std::int32_t take_number(std::string_view& text) {
  constexpr std::size_t kMostDigits = 6;
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  if (end == 0 || end > kMostDigits) return -1;
  const std::int32_t value = std::stoi(std::string(text.substr(0, end)));
  text.remove_prefix(end);
  return value;
}

bool read_action(std::string_view text, PipelineAction& action) {
  action.stage = take_number(text);
  const std::string_view word = text.substr(0, text.find_first_of("0123456789"));
  const auto found = std::ranges::find(kWords, word);
  if (action.stage < 0 || found == std::end(kWords)) return false;
  action.kind = static_cast<Kind>(found - std::begin(kWords));
  text.remove_prefix(word.size());
  if (action.kind >= Kind::kUnshard && text.empty()) return true;
  action.microbatch = take_number(text);
  return action.microbatch >= 0 && text.empty();
}

bool read_cell(std::string_view text, PipelineCell& cell) {
  const bool overlaps = text.starts_with('(') && text.ends_with(kOverlap);
  if (overlaps) text = text.substr(1, text.size() - 1 - kOverlap.size());
  if (overlaps && !text.ends_with(')')) return false;
  if (overlaps) text.remove_suffix(1);
  return std::ranges::all_of(parts_of_text(text, overlaps ? ";" : "\n"), [&](auto part) {
    return read_action(trimmed(part), cell.emplace_back());
  });
}

bool computes(Kind kind) { return kind <= Kind::kBackwardWeight; }
bool is_message(Kind kind) { return kind >= Kind::kSendForward && kind <= Kind::kWaitSendBackward; }
bool sends(Kind kind) { return kind == Kind::kSendForward || kind == Kind::kSendBackward; }
bool receives(Kind kind) { return kind == Kind::kReceiveForward || kind == Kind::kReceiveBackward; }

void for_each(const PipelineSchedule& schedule, const auto& visit) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      for (const PipelineAction& action : schedule.ranks[rank][i]) {
        visit(static_cast<std::int32_t>(rank), static_cast<std::int32_t>(i), action);
      }
    }
  }
}

// Notes on which rank each stage is computed.
void find_stages(PipelineSchedule& schedule) {
  std::map<std::int32_t, std::int32_t> found;
  for_each(schedule, [&](std::int32_t rank, std::int32_t i, const PipelineAction& action) {
    if (!computes(action.kind)) return;
    const std::int32_t other = found.try_emplace(action.stage, rank).first->second;
    if (other == rank) return;
    schedule.refused.push_back(
        {rank, i, to_string(action), fmt::format("stage {} is rank {}'s", action.stage, other)});
  });
  for (const auto& [stage, rank] : found) {
    if (stage == schedule.stages()) {
      schedule.rank_of_stage.push_back(rank);
      continue;
    }
    const PipelineCell& first = schedule.ranks[static_cast<std::size_t>(rank)][0];
    schedule.refused.push_back(
        {rank, 0, to_string(first), fmt::format("no rank computes stage {}", schedule.stages())});
    return;
  }
}

// Every message is between two stages that there are, and on the rank of its stage.
void check_messages(PipelineSchedule& schedule) {
  for_each(schedule, [&](std::int32_t rank, std::int32_t i, const PipelineAction& action) {
    if (!is_message(action.kind)) return;
    const bool known = action.stage < schedule.stages() && schedule.peer_of(action) >= 0;
    if (known && schedule.rank_of_stage[static_cast<std::size_t>(action.stage)] == rank) return;
    schedule.refused.push_back(
        {rank, i, to_string(action),
         known ? "its stage is another rank's" : "there is no such stage on the other side"});
  });
}

}  // namespace

std::string_view word_of(PipelineAction::Kind kind) {
  return kWords[static_cast<std::size_t>(kind)];
}

std::string to_string(const PipelineAction& action) {
  std::string text = fmt::format("{}{}", action.stage, word_of(action.kind));
  if (action.microbatch >= 0) text += std::to_string(action.microbatch);
  return text;
}

std::string to_string(const PipelineCell& cell) {
  if (cell.size() == 1) return to_string(cell[0]);
  std::string text;
  for (const PipelineAction& action : cell) text += (text.empty() ? "(" : ";") + to_string(action);
  return fmt::format("{}){}", text, kOverlap);
}

std::int32_t PipelineSchedule::peer_of(const PipelineAction& action) const {
  const bool next = action.kind == Kind::kSendForward || action.kind == Kind::kReceiveBackward ||
                    action.kind == Kind::kWaitSendForward;
  const std::int32_t other = action.stage + (next ? 1 : -1);
  return other < 0 || other >= stages() ? -1 : rank_of_stage[static_cast<std::size_t>(other)];
}

PipelineSchedule read_pipeline_schedule(std::string_view csv, Receives placed) {
  PipelineSchedule schedule;
  while (!csv.empty() && (csv.back() == '\n' || csv.back() == '\r')) csv.remove_suffix(1);
  for (const std::string_view line : parts_of_text(csv, "\n")) {
    const auto rank = static_cast<std::int32_t>(schedule.ranks.size());
    std::vector<PipelineCell>& row = schedule.ranks.emplace_back();
    for (const std::string_view cell : parts_of_text(line, ",")) {
      const std::string_view text = unquoted(trimmed(cell));
      if (text.empty() || read_cell(text, row.emplace_back())) continue;
      schedule.refused.push_back({rank, static_cast<std::int32_t>(row.size()) - 1,
                                  printed_text(text.substr(0, kMostShown)), std::string(kForm)});
    }
    if (row.empty()) schedule.refused.push_back({rank, 0, "", "this rank has no action"});
  }
  if (schedule.refused.empty()) find_stages(schedule);
  if (!schedule.refused.empty()) return schedule;
  bool has_messages = false;
  for_each(schedule, [&](std::int32_t, std::int32_t, const PipelineAction& action) {
    has_messages = has_messages || is_message(action.kind);
  });
  if (has_messages && placed == Receives::kDeferred) {
    fail(Fix{"leave it out, or give the schedule of computations alone"},
         "the schedule has its receives in their places, which defer does not move: torch loads "
         "one with messages as it is");
  }
  has_messages ? check_messages(schedule) : lower(schedule, placed);
  return schedule;
}

namespace {

// "F2 of stage 1", the stage that it is for.
std::string message_text(const PipelineAction& action) {
  const bool forward = action.kind == Kind::kSendForward || action.kind == Kind::kReceiveForward;
  const std::int32_t further = !sends(action.kind) ? 0 : forward ? 1 : -1;
  return fmt::format("{}{} of stage {}", forward ? 'F' : 'B', action.microbatch,
                     action.stage + further);
}

// One row, action by action.
class RowCheck {
 public:
  RowCheck(const PipelineSchedule& schedule, std::int32_t rank, CheckedSchedule& result)
      : schedule_(schedule),
        rank_(rank),
        result_(result),
        steps_(result.steps.ranks.emplace_back()) {}

  void run() {
    const auto& row = schedule_.ranks[static_cast<std::size_t>(rank_)];
    std::int64_t live = 0, most = 0;
    for (const PipelineCell& cell : row) {
      for (const PipelineAction& action : cell) {
        step_ = {.text = to_string(cell), .place = index_};
        look(action, to_string(cell));
        steps_.push_back(std::move(step_));
        live += action.kind == Kind::kForward ? 1 : 0;
      }
      most = std::max(most, live);
      live -= std::ranges::count_if(cell, [](const PipelineAction& action) {
        return action.kind == Kind::kBackward || action.kind == Kind::kBackwardWeight;
      });
      ++index_;
    }
    for (const auto& [action, step] : pending_) {
      refuse(to_string(action), "send that nobody waits for");
    }
    result_.live.push_back(most);
  }

 private:
  void refuse(std::string action, std::string reason) {
    result_.refused.push_back({rank_, index_, std::move(action), std::move(reason)});
  }
  bool done(PipelineAction action, Kind kind, std::int32_t further = 0) const {
    action.kind = kind;
    action.stage += further;
    return done_.contains(action);
  }
  bool backward_done(const PipelineAction& action, std::int32_t further = 0) const {
    return done(action, Kind::kBackward, further) || done(action, Kind::kBackwardInput, further);
  }

  void look(const PipelineAction& action, const std::string& cell) {
    const Kind kind = action.kind;
    const auto unless = [&](bool fine, const char* reason) {
      if (!fine) refuse(cell, reason);
    };
    if (kind == Kind::kForward) {
      needs_input(action, -1, cell);
    } else if (kind == Kind::kBackward || kind == Kind::kBackwardInput) {
      unless(done(action, Kind::kForward), "backward before forward");
      needs_input(action, +1, cell);
    } else if (kind == Kind::kBackwardWeight) {
      unless(done(action, Kind::kBackwardInput), "weight gradient before input gradient");
    } else if (sends(kind)) {
      const bool forward = kind == Kind::kSendForward;
      unless(forward ? done(action, Kind::kForward) : backward_done(action),
             "sent before it is computed");
      unless(!done_.contains(action), "sent twice");
      post(action, Operation::Kind::kSend, pending_);
    } else if (receives(kind)) {
      unless(!done_.contains(action), "received twice");
      post(action, Operation::Kind::kReceive, received_);
    } else if (is_message(kind)) {
      PipelineAction sent = action;
      sent.kind = kind == Kind::kWaitSendForward ? Kind::kSendForward : Kind::kSendBackward;
      const auto found = pending_.find(sent);
      unless(found != pending_.end(), "waits for a send that is not pending");
      if (found != pending_.end()) {
        step_.needs.push_back(found->second);
        pending_.erase(found);
      }
    }
    done_.insert(action);
  }

  // From the stage before or behind this one.
  void needs_input(const PipelineAction& action, std::int32_t further, const std::string& cell) {
    const std::int32_t other = action.stage + further;
    if (other < 0 || other >= schedule_.stages()) return;
    if (schedule_.rank_of_stage[static_cast<std::size_t>(other)] == rank_) {
      const bool there =
          further < 0 ? done(action, Kind::kForward, further) : backward_done(action, further);
      if (!there) refuse(cell, "computed before its input on this rank");
      return;
    }
    PipelineAction receive = action;
    receive.kind = further < 0 ? Kind::kReceiveForward : Kind::kReceiveBackward;
    const auto found = received_.find(receive);
    if (found == received_.end()) return refuse(cell, "computed before its receive is posted");
    step_.needs.push_back(found->second);
  }

  void post(const PipelineAction& action, Operation::Kind kind,
            std::map<PipelineAction, std::int32_t>& posted) {
    const std::int32_t peer = schedule_.peer_of(action);
    step_.posts.push_back({.kind = kind, .peer = peer});
    step_.labels.push_back(message_text(action));
    step_.text += fmt::format(" {} {}", kind == Operation::Kind::kSend ? "->" : "<-", peer);
    posted[action] = static_cast<std::int32_t>(steps_.size());
  }

  const PipelineSchedule& schedule_;
  const std::int32_t rank_;
  CheckedSchedule& result_;
  std::vector<RankStep>& steps_;
  std::int32_t index_ = 0;
  RankStep step_;
  std::set<PipelineAction> done_;
  std::map<PipelineAction, std::int32_t> received_, pending_;
};

}  // namespace

CheckedSchedule check_schedule(const PipelineSchedule& schedule) {
  CheckedSchedule result;
  result.refused = schedule.refused;
  if (!result.refused.empty()) return result;
  std::vector<std::int64_t>& all = result.steps.groups.emplace_back();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    all.push_back(static_cast<std::int64_t>(rank));
  }
  result.steps.ranks.reserve(all.size());
  for (const std::int64_t rank : all) {
    RowCheck(schedule, static_cast<std::int32_t>(rank), result).run();
  }
  return result;
}

}  // namespace shardlab
