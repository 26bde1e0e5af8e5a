// Two visits are of one kind when all that a report prints of them is the same. Types are compared
// as text, on one mesh: specs whose difference no report shows are one.
#include "sim/report/line_visits.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <unordered_map>

#include "mesh/type_string.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

class VisitKinds {
 public:
  int of(const std::vector<TraceEvent>& events, const LineVisit& visit) {
    std::vector<std::int64_t> facts{static_cast<std::int64_t>(visit.pass), visit.line};
    for (std::size_t i = visit.begin; i < visit.end; ++i) add(events[i], facts);
    return known_.try_emplace(std::move(facts), static_cast<int>(known_.size())).first->second;
  }

 private:
  using Facts = std::vector<std::int64_t>;

  void add(const TraceEvent& event, Facts& facts) {
    facts.push_back(static_cast<std::int64_t>(event.kind));
    facts.push_back(event.depth);
    switch (event.kind) {
      case TraceEvent::Kind::kOp:
        facts.push_back(text_number(std::string(event.schema.row->name())));
        add(event.schema.tensor_specs(), facts);
        add(event.decision->inputs, facts);
        add(event.decision->outputs, facts);
        break;
      case TraceEvent::Kind::kLocal:
        facts.push_back(text_number(std::string(event.local->row->name())));
        for (const TensorMeta& meta : event.local->inputs) facts.push_back(type_number(meta));
        facts.push_back(-1);
        for (const TensorMeta& meta : event.local->outputs) facts.push_back(type_number(meta));
        break;
      case TraceEvent::Kind::kRedistribution:
        facts.push_back(event.redistribution.argument);
        add({event.redistribution.source, event.redistribution.target}, facts);
        break;
      case TraceEvent::Kind::kCollective:
      case TraceEvent::Kind::kWait:
        add(event.collective, facts);
        break;
    }
  }

  void add(const std::vector<const DTensorSpec*>& specs, Facts& facts) {
    facts.push_back(static_cast<std::int64_t>(specs.size()));
    for (const DTensorSpec* spec : specs) {
      if (const auto known = specs_.find(spec); known != specs_.end()) {
        facts.push_back(known->second);
        continue;
      }
      const auto text = [&] {
        return type_string(*spec) + fmt::format(" {}", fmt::ptr(spec->layout()));
      };
      facts.push_back(spec == nullptr ? -1 : text_number(text()));
      specs_.emplace(spec, facts.back());
    }
  }

  void add(const CollectiveRecord& record, Facts& facts) {
    facts.push_back(static_cast<std::int64_t>(record.kind));
    facts.push_back(static_cast<std::int64_t>(record.op));
    facts.push_back(static_cast<std::int64_t>(record.dtype));
    facts.push_back(text_number(record.group.name));
    facts.push_back(record.group.size);
    facts.push_back(static_cast<std::int64_t>(record.sent_bytes));
    facts.insert(facts.end(), record.input_shape.begin(), record.input_shape.end());
  }

  std::int64_t type_number(const TensorMeta& meta) { return text_number(type_string(meta)); }
  std::int64_t text_number(const std::string& text) {
    return texts_.try_emplace(text, static_cast<std::int64_t>(texts_.size())).first->second;
  }

  std::map<Facts, int> known_;
  std::unordered_map<const DTensorSpec*, std::int64_t> specs_;
  std::unordered_map<std::string, std::int64_t> texts_;
};

}  // namespace

std::vector<LineVisit> line_visits(const std::vector<TraceEvent>& events) {
  std::vector<LineVisit> visits;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const TraceEvent& event = events[i];
    const bool same = !visits.empty() && visits.back().pass == event.pass &&
                      (event.depth > 0 || visits.back().line == event.position.line);
    if (!same) {
      visits.push_back({.pass = event.pass, .line = event.position.line, .begin = i, .end = i});
    }
    visits.back().end = i + 1;
  }
  VisitKinds kinds;
  for (LineVisit& visit : visits) visit.kind = kinds.of(events, visit);
  return visits;
}

}  // namespace shardlab
