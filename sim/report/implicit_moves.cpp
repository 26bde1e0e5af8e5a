// A redistribution is inside of the op that asked for it, and its collectives follow it.
#include "sim/report/implicit_moves.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "schema/op_row.h"
#include "sim/report/decision_text.h"
#include "sim/run/mesh_names.h"

namespace shardlab {

namespace {

bool is_implicit(const TraceEvent& event) {
  const RedistributionRecord& record = event.redistribution;
  return event.kind == TraceEvent::Kind::kRedistribution && record.argument >= 0 &&
         record.plan != nullptr && communicates(*record.plan);
}

double sent_after(const std::vector<TraceEvent>& events, std::size_t index) {
  double bytes = 0;
  for (++index; index < events.size(); ++index) {
    const TraceEvent& event = events[index];
    if (event.kind == TraceEvent::Kind::kCollective) {
      bytes += event.collective.sent_bytes;
    } else if (event.kind != TraceEvent::Kind::kWait) {
      break;
    }
  }
  return bytes;
}

}  // namespace

std::vector<ImplicitMove> implicit_moves(const Run& run) {
  const std::vector<TraceEvent>& events = run.events;
  std::vector<ImplicitMove> moves;
  std::vector<const TraceEvent*> around;  // the ops around the event, by depth
  for (std::size_t i = 0; i < events.size(); ++i) {
    const TraceEvent& event = events[i];
    const auto depth = static_cast<std::size_t>(event.depth);
    if (event.kind == TraceEvent::Kind::kOp) {
      around.resize(depth);
      around.push_back(&event);
      continue;
    }
    if (!is_implicit(event) || depth == 0 || around.size() < depth) continue;
    const OpSchema& schema = around[depth - 1]->schema;
    ImplicitMove move{.pass = event.pass,
                      .line = event.position.line,
                      .op = schema.row->name(),
                      .argument = argument_name(schema, event.redistribution.argument),
                      .source = shown_type(run, *event.redistribution.source),
                      .target = shown_type(run, *event.redistribution.target)};
    const auto key = [](const ImplicitMove& m) {
      return std::tie(m.pass, m.line, m.op, m.argument, m.source, m.target);
    };
    auto same = std::ranges::find_if(moves, [&](const auto& m) { return key(m) == key(move); });
    if (same == moves.end()) same = moves.insert(moves.end(), move);
    ++same->times;
    same->sent_bytes += sent_after(events, i);
  }
  return moves;
}

// Their moves have no plan.
std::int64_t foreign_numbers(const Run& run) {
  return std::ranges::count_if(run.events, [](const TraceEvent& event) {
    return event.kind == TraceEvent::Kind::kRedistribution && event.redistribution.argument >= 0 &&
           event.redistribution.plan == nullptr;
  });
}

std::vector<std::string> implicit_warnings(const Run& run) {
  std::vector<std::string> texts;
  if (run.scenario.expect.implicit != ImplicitRedistribution::kWarn) return texts;
  for (const ImplicitMove& move : implicit_moves(run)) {
    texts.push_back(fmt::format(
        "line {}{}: {} redistributes argument {} from {} to {}{}, {} sent by rank {}", move.line,
        move.pass == Pass::kBackward ? ", backward" : "", move.op, move.argument, move.source,
        move.target, move.times == 1 ? "" : fmt::format(", {} times", move.times),
        bytes_text(move.sent_bytes), run.reporting_rank));
  }
  return texts;
}

}  // namespace shardlab
