// Values are merged into the events by the number of events before they were named.
#include "sim/report/run_listing.h"

#include <limits>
#include <map>

#include "base/text.h"
#include "sim/report/collective_sums.h"
#include "sim/report/decision_text.h"
#include "sim/report/line_reports.h"
#include "sim/report/outcome_text.h"
#include "sim/report/overview_text.h"
#include "sim/report/why_names.h"
#include "sim/run/mesh_names.h"

namespace shardlab {

RunListing::RunListing(const ScenarioResult& result, const RunTextOptions& options)
    : ReportLines(result, options), asked_(asked_about(result, options.why)) {
  name_width_ = column_width(result.judgement.values, &ValueReport::name, 16);
  type_width_ = column_width(result.judgement.values, &ValueReport::type, 34);
}

std::string RunListing::passes() {
  pass(Pass::kForward);
  pass(Pass::kBackward);
  return std::move(out_);
}

std::string RunListing::calls() {
  margin_ = 2;
  for (std::size_t i = 0; i < run_.events.size(); ++i) show(i);
  return std::move(out_);
}

std::string RunListing::visits(const std::vector<bool>& wanted) {
  origins_ = collective_origins(run_.events);
  const std::vector<LineVisit> all = line_visits(run_.events);
  std::map<int, std::int64_t> times;
  std::vector<const LineVisit*> shown;
  for (const LineVisit& visit : all) {
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(visit.begin);
    const auto last = wanted.begin() + static_cast<std::ptrdiff_t>(visit.end);
    if (std::find(first, last, true) == last) continue;
    if (++times[visit.kind] == 1) shown.push_back(&visit);
  }
  const LineVisit* before = nullptr;
  for (const LineVisit* visit : shown) {
    if (before == nullptr || before->pass != visit->pass) title(visit->pass);
    source_header(visit->line, times[visit->kind]);
    for (std::size_t i = visit->begin; i < visit->end; ++i) show(i);
    before = visit;
  }
  return std::move(out_);
}

void RunListing::pass(Pass wanted) {
  const bool forward = wanted == Pass::kForward;
  bool begun = false;
  int last = -1;
  const auto begin = [&] {
    if (!begun) title(wanted);
    begun = true;
  };
  for (std::size_t i = 0; i < run_.events.size(); ++i) {
    const TraceEvent& event = run_.events[i];
    if (event.pass != wanted) continue;
    begin();
    if (forward) values_before(i, last);
    if (event.position.line != last) {
      last = event.position.line;
      source_header(last);
    }
    show(i);
  }
  if (!forward || !value_is_next()) return;
  begin();
  values_before(std::numeric_limits<std::size_t>::max(), last);
}

// Gradients have a section of their own. Values of other ranks come behind them.
bool RunListing::value_is_next() {
  const auto& values = judgement_.values;
  while (next_value_ < values.size() && values[next_value_].name.ends_with(".grad")) ++next_value_;
  return next_value_ < values.size();
}

void RunListing::source_header(int number, std::int64_t times) {
  const std::string repeated = times > 1 ? fmt::format("  x {}", times) : "";
  line("{:>5}  {}{}", number, ink(source_line(run_, number), Ink::kTitle), repeated);
}

// Values that were named before event `index`. Those of line `current` are below its ops, others
// get a header of their own.
void RunListing::values_before(std::size_t index, int& current) {
  while (value_is_next()) {
    const ValueReport& value = judgement_.values[next_value_];
    if (value.event > index) return;
    if (const int number = line_of(run_, value); number != current) {
      source_header(number);
      current = number;
    }
    out_ += value_line(value);
    ++next_value_;
  }
}

std::string RunListing::value_line(const ValueReport& value) const {
  const std::string verdict = run_.shapes_only() ? value.reason : outcome_text(value);
  return fmt::format("       = {:<{}} {:<{}} {}\n", shown_name(value), name_width_, value.type,
                     type_width_,
                     ink(verdict, is_wrong(value)                                    ? Ink::kBad
                                  : is_verified(value)                               ? Ink::kGood
                                  : value.row->fails_strictly && !run_.shapes_only() ? Ink::kWarn
                                                                                     : Ink::kDim));
}

void RunListing::show(std::size_t index) {
  const TraceEvent& event = run_.events[index];
  const std::string indent(margin_ + 2 * static_cast<std::size_t>(event.depth), ' ');
  const auto writer = [&](const DTensorSpec& spec) { return shown_type(run_, spec); };
  switch (event.kind) {
    case TraceEvent::Kind::kOp:
      line("{}{}", indent, op_text(event.schema, *event.decision, writer));
      if (asked_[index] && is_decided(*event.schema.row)) {
        const DecisionRecord record = run_.propagator->explain(event.schema);
        out_ += ink(why_text(event.schema, record, indent + "    ", writer), Ink::kDim);
      }
      break;
    case TraceEvent::Kind::kLocal:
      line("{}{}", indent, ink("local " + local_op_text(*event.local), Ink::kDim));
      break;
    case TraceEvent::Kind::kRedistribution:
      redistribution(event, indent);
      break;
    case TraceEvent::Kind::kCollective:
      collective(index, indent);
      break;
    case TraceEvent::Kind::kWait:
      line("{}", ink(fmt::format("{}  wait for {} over {}", indent,
                                 to_string(event.collective.kind), event.collective.group.name),
                     Ink::kMove));
      break;
  }
}

void RunListing::redistribution(const TraceEvent& event, const std::string& indent) {
  const RedistributionRecord& record = event.redistribution;
  // A move between meshes has no plan; its messages follow.
  const bool moves = record.plan != nullptr ? communicates(*record.plan) : record.argument < 0;
  std::string text =
      fmt::format("{} -> {}", shown_type(run_, *record.source), shown_type(run_, *record.target));
  if (record.argument >= 0) text = fmt::format("input {}: {}", record.argument, text);
  line("{}{}", indent,
       ink(fmt::format("{:<18} {}{}", "redistribute", text, moves ? "" : "  (local)"),
           moves ? Ink::kMove : Ink::kDim));
}

void RunListing::collective(std::size_t index, const std::string& indent) {
  const TraceEvent& event = run_.events[index];
  const CollectiveRecord& record = event.collective;
  std::string text = fmt::format(
      "  {} over {} ({} ranks), {} sent per rank{}", to_string(record.kind), record.group.name,
      record.group.size, bytes_text(record.sent_bytes), event.completed ? "" : kNeverCompleted);
  if (!origins_.empty()) {
    text += fmt::format(", {} predicted, {}", time_text(predicted_us(run_, event)),
                        to_string(origins_[index]));
  }
  line("{}{}", indent, ink(text, Ink::kMove));
}

std::string shown_name(const ValueReport& value) {
  return value.at_end ? value.name + " at the end" : value.name;
}

}  // namespace shardlab
