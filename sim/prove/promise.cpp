// The text has at most 12 lines: the verdict, the circle, what else hangs, wrong messages, and the
// next command.
#include "sim/prove/promise.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

constexpr std::string_view kVerdicts[] = {"free", "hangs", "wrong_delivery", "not_given",
                                          "refused"};
constexpr std::size_t kMostLinks = 4, kMostWrong = 2, kMostRefused = 5;

std::string text_of(const WaitLink& link, const RankSteps& steps) {
  const auto text = [&](std::int32_t step) { return steps.at(link.rank, step).text; };
  std::string line = fmt::format("rank {}  ", link.rank);
  if (link.in_queue) return line + text(link.step) + "  stands before " + text(link.before);
  line += link.step < 0 ? "has ended" : "waits at " + text(link.step);
  if (link.begins) return line;
  if (link.creates) return line + ", before it makes a communicator that others wait for";
  if (link.before >= 0) return line + ", before " + text(link.before);
  constexpr std::string_view kMissing[] = {"posts a send to rank {}",
                                           "posts a receive from rank {}",
                                           "enters a collective that others wait in"};
  return line + ", and never " +
         fmt::format(fmt::runtime(kMissing[static_cast<std::size_t>(link.missing.kind)]),
                     link.missing.peer);
}

std::string text_of(const RefusedAction& one) {
  return fmt::format("rank {}, action {} {}: {}", one.rank, one.index, one.action, one.reason);
}

std::string names(const std::vector<Transport>& transports) {
  std::vector<std::string> texts;
  for (const Transport transport : transports) texts.emplace_back(to_string(transport));
  return text_of_list(texts, ", ");
}

}  // namespace

void Promise::run(bool lazy_groups) {
  for (const Transport transport : kTransports) {
    outcomes[transport] =
        run_steps(steps, {.transport = transport, .buffers = 0, .lazy_groups = lazy_groups});
  }
  buffers = least_buffers(steps);
}

void Promise::add_tried(Transport transport, StepsOutcome outcome, RankSteps ran) {
  ++tried->runs;
  if (outcome.ends()) return;
  const bool first =
      std::ranges::all_of(outcomes, [](const auto& one) { return one.second.ends(); });
  if (first) steps = std::move(ran);
  if (!first) outcome.chain.clear();
  outcomes[transport] = std::move(outcome);
}

void Promise::meet(std::int64_t most, const MeetOnce& run) {
  tried.emplace();
  for (const Transport transport :
       {Transport::kNonblocking, Transport::kBlocking, Transport::kBuffered}) {
    std::set<std::vector<std::pair<std::int32_t, std::int32_t>>> leaves;
    std::vector<std::size_t> way;
    std::int64_t runs = 0;
    for (bool more = true; more && !outcomes.contains(transport); ++runs) {
      tried->all = tried->all && runs < most;
      if (runs == most) break;
      MetRun one = run(transport, std::move(way));
      leaves.insert(std::move(one.met));
      add_tried(transport, std::move(one.outcome), std::move(one.steps));
      way = std::move(one.way);
      way.resize(one.ways.size());
      while (!way.empty() && ++way.back() == one.ways[way.size() - 1]) way.pop_back();
      more = !way.empty();
    }
    outcomes.try_emplace(transport);
    tried->leaves = std::max(tried->leaves, static_cast<std::int64_t>(leaves.size()));
  }
}

bool Promise::asks(Transport transport) const {
  return std::ranges::find(asked, transport) != asked.end();
}

std::optional<Transport> Promise::hangs() const {
  for (const Transport transport : asked) {
    const auto found = outcomes.find(transport);
    if (found != outcomes.end() && !found->second.ends()) return transport;
  }
  return std::nullopt;
}

Promise::Kind Promise::kind() const {
  if (!refused.empty()) return Kind::kRefused;
  if (!wrong.empty()) return Kind::kWrongDelivery;
  if (hangs()) return Kind::kHangs;
  return open.empty() ? Kind::kFree : Kind::kNotGiven;
}

std::string Promise::headline() const {
  std::vector<Transport> ending, hanging;
  for (const auto& [transport, outcome] : outcomes) {
    (outcome.ends() ? ending : hanging).push_back(transport);
  }
  if (!refused.empty()) return "refused: " + text_of(refused.front());
  if (!wrong.empty() && outcomes.empty()) {
    return "delivers wrong messages, at which the run ends: hangs behind them are not looked for";
  }
  if (const auto first = hangs()) {
    std::string text = fmt::format("hangs where {}", fabric_of(*first));
    if (!ending.empty()) text += "; runs on " + names(ending);
    if (tried) return text;
    if (!buffers) return text + "; no number of buffers helps";
    if (*buffers > 0) {
      text += fmt::format("{} with {} buffered message{} a pair",
                          ending.empty() ? "; runs" : ", and", *buffers, *buffers == 1 ? "" : "s");
    }
    return text;
  }
  if (!open.empty()) return "no promise: " + open.front().name + " " + open.front().text;
  const std::string free = wrong.empty()
                               ? "free of deadlock in every order "
                               : "delivers wrong messages; free of deadlock in every order ";
  if (!hanging.empty()) return free + "on " + names(ending);
  return free + "and with any buffers (one run; no receive from any rank, no branch on timing)";
}

std::string Promise::text() const {
  std::vector<std::string> lines = {headline()};
  const auto say = [&]<typename... Parts>(fmt::format_string<Parts...> form, Parts&&... parts) {
    lines.push_back(fmt::format(form, std::forward<Parts>(parts)...));
  };
  for (std::size_t i = 1; i < std::min(refused.size(), kMostRefused); ++i) {
    say("  {}", text_of(refused[i]));
  }
  if (refused.size() > kMostRefused) say("  and {} more", refused.size() - kMostRefused);
  const auto explain = [&](Transport transport) {
    const std::vector<WaitLink>& chain = outcomes.at(transport).chain;
    const std::size_t shown = std::min(chain.size(), kMostLinks);
    for (std::size_t i = 0; i < shown; ++i) say("  {}", text_of(chain[i], steps));
    if (shown < chain.size()) say("  and {} more", chain.size() - shown);
  };
  const std::optional<Transport> first = hangs();
  std::optional<Transport> shown = first;
  if (shown) explain(*shown);
  for (const auto& [transport, outcome] : outcomes) {
    if (outcome.ends() || transport == first) continue;
    say("also: hangs where {}", fabric_of(transport));
    if (!shown) explain(*(shown = transport));
  }
  for (std::size_t i = 0; i < std::min(wrong.size(), kMostWrong); ++i) {
    const WrongMessage& one = wrong[i];
    say("wrong message: rank {} receives {}, rank {} sent {} (message {} from {} to {})", one.to,
        one.received, one.from, one.sent, one.place + 1, one.from, one.to);
  }
  if (wrong.size() > kMostWrong)
    lines.back() += fmt::format(", and {} more", wrong.size() - kMostWrong);
  if (tried) {
    say("tried: {} runs", tried->runs);
    if (tried->leaves > 0) {
      lines.back() += fmt::format(", {} ways to meet receives from any rank{}", tried->leaves,
                                  tried->all ? "" : ", not all: no proof");
    }
    if (tried->bound > 0) {
      say("a hang by one change of order is met with a chance of at least {:.2g} a run (PCT)",
          tried->bound);
    }
  }
  if (!live.empty()) say("live microbatches by rank: {}", text_of_list(live, " "));
  if (refused.empty() && (kind() != Kind::kFree || shown)) {
    const std::string_view next = to_string(shown.value_or(Transport::kNonblocking));
    say("next: shardlab {} {}",
        of_schedule ? "prove --json" : fmt::format("run --transport {}", next), file);
  }
  return text_of_list(lines, "\n") + "\n";
}

Json Promise::json() const {
  Json json = {{"file", file}, {"verdict", kVerdicts[static_cast<std::size_t>(kind())]}};
  json["headline"] = headline();
  json["least_buffers"] = buffers ? Json(*buffers) : Json();
  json["misdelivered_count"] = wrong.size();
  if (!live.empty()) json["live_microbatches"] = live;
  for (const RefusedAction& one : refused) {
    json["refused"].push_back(
        {{"rank", one.rank}, {"index", one.index}, {"action", one.action}, {"reason", one.reason}});
  }
  for (const WrongMessage& one : wrong) {
    json["wrong_messages"].push_back({{"from", one.from},
                                      {"to", one.to},
                                      {"place", one.place},
                                      {"sent", one.sent},
                                      {"received", one.received}});
  }
  for (const OpenCondition& one : open) {
    json["conditions"].push_back({{"name", one.name}, {"text", one.text}});
  }
  if (tried) {
    json["tried"] = {{"runs", tried->runs},
                     {"leaves", tried->leaves},
                     {"all", tried->all},
                     {"bound", tried->bound}};
  }
  for (const auto& [transport, outcome] : outcomes) {
    Json& one = json["transports"][std::string(to_string(transport))];
    one["ends"] = outcome.ends();
    one["asked"] = asks(transport);
    for (const StuckRank& stuck : outcome.stuck) {
      constexpr std::string_view kKind[] = {"send", "recv", "collective"};
      const Operation& what = stuck.waits_for;
      const RankStep& step = steps.at(stuck.rank, stuck.step);
      one["stuck"].push_back({{"rank", stuck.rank},
                              {"index", step.place},
                              {"at", step.text},
                              {"waits_for", kKind[static_cast<std::size_t>(what.kind)]},
                              {"peer", what.peer < 0 ? Json() : Json(what.peer)}});
    }
    for (const WaitLink& link : outcome.chain) {
      one["circle"].push_back({{"rank", link.rank}, {"text", text_of(link, steps)}});
    }
  }
  return json;
}

Promise promise_of(const std::string& csv, Receives receives, bool lazy_groups) {
  Promise promise;
  promise.of_schedule = true;
  CheckedSchedule checked = check_schedule(read_pipeline_schedule(csv, receives));
  promise.refused = std::move(checked.refused);
  if (!promise.refused.empty()) return promise;
  promise.live = std::move(checked.live);
  promise.steps = std::move(checked.steps);
  promise.wrong = wrong_messages(promise.steps);
  promise.run(lazy_groups);
  return promise;
}

}  // namespace shardlab
