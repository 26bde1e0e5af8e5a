// A rank notes at each event how many calls there were before: the calls behind are the event's.
// A replay waits where values are used; the waits of the program take their place.
#include "sim/replay/played_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/rank_context.h"
#include "base/text.h"
#include "sim/log/trace.h"
#include "sim/replay/recorded_world.h"

namespace shardlab {

SourcePosition position_of(const RecordedProgram& program, const RecordedEvent& event) {
  if (event.place < 0) return {};
  const RecordedPlace& place = program.places[static_cast<std::size_t>(event.place)];
  return {place.file.c_str(), static_cast<std::int32_t>(place.line)};
}

namespace {

class CallWatch final : public Watch {
 public:
  CallWatch(const WatchPlace& place, const FabricLog& log) : Watch(place), log_(log) {}

  // Calls are logged where somebody observes them.
  Observer* observer() override {
    Observer* const rules = Watch::observer();
    return rules != nullptr ? rules : &trace_;
  }
  /// The event that made a call of this rank.
  std::size_t event_of(std::size_t call) const {
    return std::ranges::upper_bound(begun_, call, {}, &Begun::calls)[-1].event;
  }

 protected:
  void before(std::size_t event, ReplayState&) override {
    begun_.push_back({log_.calls.size(), event});
  }

 private:
  struct Begun {
    std::size_t calls = 0, event = 0;
  };
  const FabricLog& log_;
  Trace trace_{TraceDetail::kCounts};
  std::vector<Begun> begun_{{}};
};

// "c10d._allgather_base_.default", "_c10d_functional.all_gather_into_tensor.default": all_gather.
CollectiveKind kind_of(const RecordedEvent& event) {
  const auto plain = [](std::string text) {
    std::erase(text, '_');
    return text;
  };
  const std::string op = plain(event.op);
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
    const auto one = static_cast<CollectiveKind>(i);
    const std::string name = plain("." + std::string(to_string(one)));
    if (name.size() <= longest || op.find(name) == std::string::npos) continue;
    kind = one;
    longest = name.size();
  }
  return kind;
}

// The log of a replay with the steps that the program had.
class RecordedSteps {
 public:
  RecordedSteps(const RecordedProgram& program, const PlayedGraph& graph, FabricLog& log,
                const std::vector<std::unique_ptr<CallWatch>>& watches)
      : program_(program), graph_(graph), log_(log), watches_(watches), ranks_(watches.size()) {
    for (std::size_t i = 0; i < log.calls.size(); ++i) note_call(static_cast<std::int32_t>(i));
    for (std::size_t at = 0; at < program.events.size(); ++at) note_event(at);
  }

  void write() {
    for (Event& event : std::exchange(log_.events, {})) {
      event.position.column = 0;
      const auto rank = static_cast<std::size_t>(event.rank);
      if (event.kind == Event::Kind::kPost) put_until(rank, event_of(event.call));
      if (event.kind == Event::Kind::kEnd) put_until(rank, program_.events.size());
      const bool replaced = event.kind == Event::Kind::kWait && has_handle(event_of(event.call));
      if (!replaced) log_.events.push_back(event);
    }
  }

 private:
  using Event = FabricLog::Event;
  struct Rank {
    std::vector<std::size_t> exchanges, waits;               ///< events
    std::size_t next = 0;                                    ///< of `waits`
    std::map<std::size_t, std::vector<std::int32_t>> calls;  ///< by event
  };

  std::size_t event_of(std::int32_t call) const {
    const auto index = static_cast<std::size_t>(call);
    return watches_[static_cast<std::size_t>(log_.calls[index].rank)]->event_of(index);
  }
  bool has_handle(std::size_t at) const { return program_.events[at].op.starts_with("c10d."); }

  void note_call(std::int32_t number) {
    FabricLog::Call& call = log_.calls[static_cast<std::size_t>(number)];
    const std::size_t at = event_of(number);
    const RecordedEvent& event = program_.events[at];
    call.joins = event.joins;
    call.any = event.any;
    call.position.column = 0;
    if (is_recorded_message(event) && !event.name.empty()) call.label = event.name.c_str();
    ranks_[static_cast<std::size_t>(call.rank)].calls[at].push_back(number);
    if (event.group >= 0) recorded_.try_emplace(call.what.group, event.group);
  }

  void note_event(std::size_t at) {
    const RecordedEvent& event = program_.events[at];
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (event.rank >= 0 && static_cast<std::size_t>(event.rank) != rank) continue;
      if (event.kind == RecordedKind::kCollect) ranks_[rank].exchanges.push_back(at);
      const bool steps = event.kind == RecordedKind::kOther || graph_.alone.contains(at);
      if (steps) ranks_[rank].waits.push_back(at);
    }
  }

  void put_until(std::size_t rank, std::size_t end) {
    Rank& own = ranks_[rank];
    for (; own.next < own.waits.size() && own.waits[own.next] < end; ++own.next) {
      const RecordedEvent& event = program_.events[own.waits[own.next]];
      const SourcePosition at = position_of(program_, event);
      if (event.kind != RecordedKind::kOther) {
        own.calls[own.waits[own.next]].push_back(put_call(static_cast<std::int32_t>(rank), event));
        continue;
      }
      if (event.name == "barrier") {
        put(Event::Kind::kWait, rank, put_call(static_cast<std::int32_t>(rank), event), at);
      }
      if (event.name == "synchronize") put(Event::Kind::kSynchronize, rank, -1, at);
      if (!event.of || *event.of >= own.exchanges.size()) continue;
      const auto calls = own.calls.find(own.exchanges[*event.of]);
      if (calls == own.calls.end()) continue;
      for (const std::int32_t call : calls->second) put(Event::Kind::kWait, rank, call, at);
    }
  }

  // The log's group of the recorded one; collectives of DTensors do not say which one is theirs.
  std::int32_t group_of(std::int32_t recorded, const std::vector<std::int64_t>& ranks) {
    const auto all = static_cast<std::int32_t>(log_.groups.size());
    std::int32_t number = 0;
    const auto is_other = [&] {
      return log_.groups[static_cast<std::size_t>(number)].ranks != ranks ||
             recorded_.try_emplace(number, recorded).first->second != recorded;
    };
    while (number < all && is_other()) ++number;
    if (number < all) return number;
    const bool whole = ranks.size() == ranks_.size();
    log_.groups.push_back({whole ? "all" : "of ranks " + text_of_list(ranks, ", "), ranks});
    recorded_.try_emplace(all, recorded);
    return all;
  }

  void put(Event::Kind kind, std::size_t rank, std::int32_t call, const SourcePosition& at) {
    log_.events.push_back({kind, static_cast<std::int32_t>(rank), call, at});
  }

  // No call of the replay: a barrier, or a call without its other side, which is never complete.
  std::int32_t put_call(std::int32_t rank, const RecordedEvent& event) {
    const auto& members = members_of(program_, event, static_cast<std::size_t>(rank));
    Operation what{.group = group_of(event.group, members)};
    if (is_recorded_message(event)) {
      const auto [from, to, tag, group] = route_of(program_, event);
      const bool sends = is_recorded_send(event);
      what.kind = sends ? Operation::Kind::kSend : Operation::Kind::kReceive;
      what.peer = static_cast<std::int32_t>(sends ? to : from);
      what.tag = static_cast<std::int32_t>(tag);
    }
    const auto call = static_cast<std::int32_t>(log_.calls.size());
    log_.calls.push_back({.rank = rank,
                          .kind = kind_of(event),
                          .what = what,
                          .position = position_of(program_, event),
                          .input = {},
                          .output = {},
                          .joins = event.joins,
                          .any = event.any});
    put(Event::Kind::kPost, static_cast<std::size_t>(rank), call, log_.calls.back().position);
    return call;
  }

  const RecordedProgram& program_;
  const PlayedGraph& graph_;
  FabricLog& log_;
  const std::vector<std::unique_ptr<CallWatch>>& watches_;
  std::vector<Rank> ranks_;
  std::map<std::int32_t, std::int32_t> recorded_;  // number of the log's group in the recording
};

}  // namespace

PlayedCalls played_calls(const RecordedProgram& program) {
  PlayedCalls result;
  const PlayedGraph graph = played_graph(program);
  ReplaySettings settings = replay_settings();
  settings.schedule.workers = 1;
  settings.log = &result.log;
  RecordedWorld world(program, settings);
  SeenTable seen(program, world.ranks());
  const auto watches = world.watches<CallWatch>(graph, seen, result.log);
  result.verdict = world.play(graph, watches).verdict;
  for (std::size_t i = 0; i < result.log.calls.size(); ++i) {
    const CallWatch& watch = *watches[static_cast<std::size_t>(result.log.calls[i].rank)];
    result.places.push_back(place_of(program, program.events[watch.event_of(i)]));
  }
  RecordedSteps(program, graph, result.log, watches).write();
  for (std::size_t i = result.places.size(); i < result.log.calls.size(); ++i) {
    result.places.push_back(place_text(result.log.calls[i].position));
  }
  return result;
}

}  // namespace shardlab
