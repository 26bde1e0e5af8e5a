// A post is a step, and so is a wait; at its end a rank waits for all that it has posted.
#include "sim/judge/posted_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/rank_context.h"

namespace shardlab {

namespace {

using Event = FabricLog::Event::Kind;

std::string text_of(const FabricLog& log, const FabricLog::Event& event) {
  if (event.kind == Event::kEnd) return "the end of the program";
  if (event.kind == Event::kSynchronize) {
    return fmt::format("a synchronization of the host ({})", place_text(event.position));
  }
  const FabricLog::Call& call = log.calls[static_cast<std::size_t>(event.call)];
  std::string text = event.kind == Event::kWait ? "the wait for " : "";
  text += to_string(call.kind);
  if (call.what.kind == Operation::Kind::kCollective) {
    text += " on group " + log.groups[static_cast<std::size_t>(call.what.group)].name;
  } else {
    text += fmt::format(" {} rank {}", call.what.kind == Operation::Kind::kSend ? "to" : "from",
                        call.what.peer);
  }
  const SourcePosition& place = event.kind == Event::kWait ? event.position : call.position;
  return place.file == nullptr ? text : fmt::format("{} ({})", text, place_text(place));
}

}  // namespace

bool has_orders(const FabricLog& log) {
  std::set<std::int32_t> groups;
  return std::ranges::any_of(log.calls, [&](const FabricLog::Call& call) {
    groups.insert(call.what.group);
    return call.what.kind != Operation::Kind::kCollective || groups.size() > 1;
  });
}

OpenCondition condition_of(const Verdict& verdict) {
  if (verdict.kind != VerdictKind::kMismatch) {
    return {"the program fails:", to_error(verdict).summary()};
  }
  constexpr int kMost = 2;
  std::string text;
  for (int shown = 0; const RankReport& report : verdict.ranks) {
    if (report.where.empty() || shown == kMost) continue;
    ++shown;
    text += fmt::format("{}: rank {} is in {}, ", report.where, report.rank, report.what);
  }
  return {"C3", text + verdict.cause};
}

Promise promise_of(const FabricLog& log, std::int64_t ranks) {
  Promise promise;
  promise.steps.ranks.resize(static_cast<std::size_t>(ranks));
  for (const FabricLog::Group& group : log.groups) promise.steps.groups.push_back(group.ranks);
  std::vector<std::int32_t> step_of(log.calls.size());
  for (const FabricLog::Event& event : log.events) {
    const auto rank = static_cast<std::size_t>(event.rank);
    std::vector<RankStep>& steps = promise.steps.ranks[rank];
    if (event.kind == Event::kPoll) {
      promise.open.push_back(
          {"C2", place_text(event.position) + ": is_completed() depends on timing"});
      continue;
    }
    const auto call = static_cast<std::size_t>(std::max(event.call, 0));
    const auto number = static_cast<std::int32_t>(steps.size());
    const bool joins = event.kind == Event::kPost && log.calls[call].joins;
    RankStep fresh{.text = joins ? "" : text_of(log, event), .place = number};
    RankStep& step = joins ? steps.back() : fresh;
    if (event.kind == Event::kPost) {
      step.posts.push_back(log.calls[call].what);
      step.labels.emplace_back(log.calls[call].label == nullptr ? "" : log.calls[call].label);
      step_of[call] = joins ? number - 1 : number;
      if (log.calls[call].any) {
        step.any = true;
        promise.open.push_back(
            {"C1", place_text(log.calls[call].position) + ": a receive names no sender"});
      }
    } else if (event.kind == Event::kWait) {
      step.needs = {step_of[call]};
    } else if (event.kind == Event::kSynchronize) {
      step.synchronizes = true;
    } else {
      for (std::size_t i = 0; i < steps.size(); ++i)
        step.needs.push_back(static_cast<std::int32_t>(i));
    }
    if (!joins) steps.push_back(std::move(fresh));
  }
  const auto ended = std::ranges::count(log.events, Event::kEnd, &FabricLog::Event::kind);
  promise.steps.cut_short = ended < ranks;
  promise.wrong = wrong_messages(promise.steps);
  return promise;
}

}  // namespace shardlab
