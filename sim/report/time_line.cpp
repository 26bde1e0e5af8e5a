// Ranks are replayed by their events: each continues until a collective that others have not
// entered yet. An op takes time of its own where no other op runs inside of it.
#include "sim/report/time_line.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "schema/op_row.h"
#include "sim/files/json_value.h"
#include "sim/report/collective_sums.h"
#include "sim/report/op_work.h"

namespace shardlab {

namespace {

// The ranks of one collective, or the two of a message.
struct Meeting {
  std::size_t expected = 1, entered = 0;
  double last = 0;  // when the last one entered
  double us = 0;
  bool complete() const { return entered >= expected; }
  double end() const { return last + us; }
};

// Group, whether it is a message; of messages sender, receiver, tag; the number in its order.
using Key = std::tuple<std::vector<std::int64_t>, bool, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t>;

struct Rank {
  std::int64_t rank = 0;
  const std::vector<TraceEvent>* events = nullptr;
  std::optional<Coordinate> coordinate;
  std::size_t next = 0;
  double clock = 0;
  std::optional<Key> inside;  // a collective that others have not entered
  double entered = 0;
  struct Open {
    const TraceEvent* event;
    double begin;
    bool parts = false;  // other ops ran in it
  };
  std::vector<Open> open;
  // Asynchronous collectives by group, number and whether they are messages.
  std::map<std::tuple<std::vector<std::int64_t>, bool, std::int64_t>, Key> pending;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> messages;
};

class TimeLine {
 public:
  TimeLine(const Run& run, const CallRates& rates) : run_(run), rates_(rates) {
    const std::size_t others = run.events_of_others.size();
    for (std::size_t i = 0; i < std::max<std::size_t>(others, 1); ++i) {
      const bool reporter = others == 0 || static_cast<std::int64_t>(i) == run.reporting_rank;
      Rank rank;
      rank.rank = others == 0 ? run.reporting_rank : static_cast<std::int64_t>(i);
      rank.events = reporter ? &run.events : &run.events_of_others[i];
      rank.coordinate = run.layout->coordinate_of(rank.rank);
      ranks_.push_back(std::move(rank));
    }
  }

  std::string text() {
    for (const Rank& rank : ranks_) name_process(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank& rank : ranks_) moved = advance(rank) || moved;
    }
    for (Rank& rank : ranks_) end(rank);
    const Json file = {
        {"displayTimeUnit", "ms"},
        {"otherData", {{"times", "predicted"}, {"assumed of calls", rates_text(rates_)}}},
        {"traceEvents", std::move(events_)}};
    return json_line(file) + "\n";
  }

 private:
  void name_process(const Rank& rank) {
    const auto name = [&](const char* what, const std::string& text) {
      events_.push_back({{"ph", "M"},
                         {"pid", rank.rank},
                         {"tid", 0},
                         {"name", what},
                         {"args", {{"name", text}}}});
    };
    name("process_name", fmt::format("rank {}", rank.rank));
    name("thread_name", "calls");
  }

  void slice(const Rank& rank, const std::string& name, double begin, const TraceEvent& event,
             Json args = Json::object()) {
    if (event.position.line > 0) args["line"] = event.position.line;
    if (event.pass == Pass::kBackward) args["pass"] = "backward";
    events_.push_back({{"ph", "X"},
                       {"pid", rank.rank},
                       {"tid", 0},
                       {"ts", begin},
                       {"dur", rank.clock - begin},
                       {"name", name},
                       {"args", std::move(args)}});
  }

  static std::string name_of(const TraceEvent& event) {
    if (event.kind == TraceEvent::Kind::kLocal) return "local " + event.local->row->name();
    return event.schema.text();
  }

  static std::string name_of(const CollectiveRecord& record) {
    return fmt::format("{} over {}", to_string(record.kind), record.group.name);
  }

  // Ops that have ended before one at this depth begins.
  void close(Rank& rank, int depth) {
    while (!rank.open.empty() && rank.open.back().event->depth >= depth) {
      const Rank::Open op = rank.open.back();
      rank.open.pop_back();
      const OpWork work = rank.coordinate && !op.parts
                              ? work_of(*op.event, {run_.layout, *rank.coordinate})
                              : OpWork{};
      if (!op.parts) {
        rank.clock += std::max(work.flops / (1e6 * rates_.tflops),
                               static_cast<double>(work.bytes) / (1e6 * rates_.tbps)) +
                      rates_.us_of_a_call;
      }
      slice(rank, name_of(*op.event), op.begin, *op.event);
    }
  }

  Key key_of(Rank& rank, const CollectiveRecord& record) const {
    std::vector<std::int64_t> members = record.group.ranks();
    if (!is_message(record.kind) || record.peer < 0) {
      // A batch, and a message from anyone, are not lined up with what others do.
      const bool alone = is_message(record.kind) || record.kind == CollectiveKind::kBatch;
      if (alone) members = {-1 - rank.rank};
      return {std::move(members), is_message(record.kind), 0, 0, 0, record.sequence};
    }
    const std::int64_t other = members.at(static_cast<std::size_t>(record.peer));
    const bool sends = record.kind == CollectiveKind::kSend;
    const std::int64_t from = sends ? rank.rank : other, to = sends ? other : rank.rank;
    const std::int64_t number = rank.messages[{from, to, record.tag}]++;
    return {std::vector<std::int64_t>{}, true, from, to, record.tag, number};
  }

  std::size_t expected(const Key& key, const CollectiveRecord& record) const {
    if (ranks_.size() == 1) return 1;
    const auto& members = std::get<0>(key);
    if (!members.empty() && members.front() < 0) return 1;
    return is_message(record.kind) ? 2 : static_cast<std::size_t>(record.group.size);
  }

  void enter(Rank& rank, const TraceEvent& event) {
    const CollectiveRecord& record = event.collective;
    const Key key = key_of(rank, record);
    Meeting& meeting = meetings_[key];
    meeting.expected = expected(key, record);
    ++meeting.entered;
    meeting.last = std::max(meeting.last, rank.clock);
    meeting.us = std::max(meeting.us, predicted_us(run_, event));
    if (!event.completed) {
      meeting.expected = static_cast<std::size_t>(-1);
      slice(rank, name_of(record) + kNeverCompleted, rank.clock, event);
      return;
    }
    if (record.issue == Issue::kAsync) {
      rank.pending[{record.group.ranks(), is_message(record.kind), record.sequence}] = key;
      started_.push_back({rank.rank, &event, rank.clock, key});
      return;
    }
    rank.inside = key;
    rank.entered = rank.clock;
  }

  // Whether the rank has done anything.
  bool advance(Rank& rank) {
    const std::size_t before = rank.next;
    while (true) {
      if (rank.inside && !leave(rank)) break;
      if (rank.next == rank.events->size()) break;
      const TraceEvent& event = (*rank.events)[rank.next++];
      switch (event.kind) {
        case TraceEvent::Kind::kOp:
        case TraceEvent::Kind::kLocal:
          close(rank, event.depth);
          if (!rank.open.empty()) rank.open.back().parts = true;
          rank.open.push_back({&event, rank.clock});
          break;
        case TraceEvent::Kind::kCollective:
          close(rank, event.depth);
          enter(rank, event);
          break;
        case TraceEvent::Kind::kWait: {
          close(rank, event.depth);
          const CollectiveRecord& record = event.collective;
          const auto found =
              rank.pending.find({record.group.ranks(), is_message(record.kind), record.sequence});
          if (found == rank.pending.end()) break;
          rank.inside = found->second;
          rank.entered = rank.clock;
          break;
        }
        case TraceEvent::Kind::kRedistribution:
          close(rank, event.depth);
      }
    }
    return rank.next != before;
  }

  // Out of the collective or the wait that the rank is in, where all have entered it.
  bool leave(Rank& rank) {
    const Meeting& meeting = meetings_.at(*rank.inside);
    if (!meeting.complete()) return false;
    const TraceEvent& event = (*rank.events)[rank.next - 1];
    const bool waits = event.kind == TraceEvent::Kind::kWait;
    rank.clock = std::max(rank.clock, meeting.end());
    slice(rank, (waits ? "wait for " : "") + name_of(event.collective), rank.entered, event,
          {{"predicted_us", meeting.us}, {"sent_bytes", event.collective.sent_bytes}});
    rank.inside.reset();
    return true;
  }

  void end(Rank& rank) {
    if (rank.inside) {
      const TraceEvent& event = (*rank.events)[rank.next - 1];
      slice(rank, name_of(event.collective) + kNeverCompleted, rank.entered, event);
    }
    close(rank, 0);
    for (const Started& one : started_) {
      if (one.rank != rank.rank) continue;
      const Meeting& meeting = meetings_.at(one.key);
      const double last = meeting.complete() ? meeting.end() : one.begin;
      for (const auto& [phase, time] : {std::pair{"b", one.begin}, std::pair{"e", last}}) {
        events_.push_back({{"ph", phase},
                           {"cat", "collective"},
                           {"id", fmt::format("{}", &one - started_.data())},
                           {"pid", rank.rank},
                           {"tid", 0},
                           {"ts", time},
                           {"name", name_of(one.event->collective)}});
      }
    }
  }

  struct Started {
    std::int64_t rank;
    const TraceEvent* event;
    double begin;
    Key key;
  };

  const Run& run_;
  const CallRates rates_;
  std::vector<Rank> ranks_;
  std::map<Key, Meeting> meetings_;
  std::vector<Started> started_;
  Json events_ = Json::array();
};

}  // namespace

std::string rates_text(const CallRates& rates) {
  return fmt::format("{} TFLOP/s, {} TB/s, {} us a call", rates.tflops, rates.tbps,
                     rates.us_of_a_call);
}

std::string time_line(const Run& run, const CallRates& rates) {
  return TimeLine(run, rates).text();
}

}  // namespace shardlab
