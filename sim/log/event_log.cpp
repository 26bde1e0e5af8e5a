// Only rank-invariant facts are written, so that equal logs mean equal decisions (B-2).
#include "sim/log/event_log.h"

#include <fmt/format.h>

#include "base/text.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

std::string place_of(const TraceEvent& event) {
  return fmt::format("{} line {} depth {}", event.pass == Pass::kForward ? "forward" : "backward",
                     event.position.line, event.depth);
}

std::string types_of(const std::vector<const DTensorSpec*>& specs) {
  std::string text;
  for (const DTensorSpec* spec : specs) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", spec ? type_string(*spec) : "none");
  }
  return text;
}

std::string op_line(const TraceEvent& event) {
  return fmt::format("{}: {} given ({}) takes ({}) gives ({})\n", place_of(event),
                     event.schema.text(), types_of(event.schema.tensor_specs()),
                     types_of(event.decision->inputs), types_of(event.decision->outputs));
}

std::string redistribution_line(const TraceEvent& event) {
  const RedistributionRecord& record = event.redistribution;
  return fmt::format("{}: argument {} from {} to {} by {}\n", place_of(event), record.argument,
                     type_string(*record.source), type_string(*record.target),
                     record.plan != nullptr ? record.plan->text() : "no plan");
}

}  // namespace

std::string decision_log(const std::vector<TraceEvent>& events) {
  std::string log;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEvent::Kind::kOp) log += op_line(event);
    if (event.kind == TraceEvent::Kind::kRedistribution) log += redistribution_line(event);
  }
  return log;
}

std::string collective_log(const std::vector<TraceEvent>& events) {
  std::string log;
  for (const TraceEvent& event : events) {
    const CollectiveRecord& record = event.collective;
    if (event.kind == TraceEvent::Kind::kWait) {
      log += fmt::format("{}: wait for {} {} over {}\n", place_of(event), to_string(record.kind),
                         record.sequence, record.group.name);
    }
    if (event.kind != TraceEvent::Kind::kCollective) continue;
    log += fmt::format("{}: {} {} over {} of {} ranks, {}[{}], {} bytes\n", place_of(event),
                       to_string(record.kind), to_string(record.op), record.group.name,
                       record.group.size, to_string(record.dtype),
                       text_of_list(record.input_shape, ","), record.sent_bytes);
  }
  return log;
}

}  // namespace shardlab
