// The collectives of a redistribution follow its record, as many as its plan has steps that move
// bytes. The others inside of an op are the op's own.
#include "sim/report/collective_origins.h"

#include <algorithm>

#include "sim/report/decision_text.h"

namespace shardlab {

std::vector<CollectiveOrigin> collective_origins(const std::vector<TraceEvent>& events) {
  std::vector<CollectiveOrigin> origins(events.size());
  std::vector<const OpSchema*> around;  // the ops around the event, by depth
  CollectiveOrigin moved;
  int owed = 0;  // collectives of the last redistribution that are still to come
  for (std::size_t i = 0; i < events.size(); ++i) {
    const TraceEvent& event = events[i];
    around.resize(std::min(around.size(), static_cast<std::size_t>(event.depth)));
    const OpSchema* const op = around.empty() ? nullptr : around.back();
    if (event.kind == TraceEvent::Kind::kOp) {
      around.push_back(&event.schema);
    } else if (event.kind == TraceEvent::Kind::kRedistribution) {
      const int argument = event.redistribution.argument;
      owed = event.redistribution.plan == nullptr ? 0 : moving_steps(*event.redistribution.plan);
      moved = {};
      if (op != nullptr) moved = {Origin::kInside, std::string(short_name(*op->row)), ""};
      if (op != nullptr && argument >= 0) {
        moved = {Origin::kImplicit, moved.op, argument_name(*op, argument)};
      }
    } else if (event.kind == TraceEvent::Kind::kCollective) {
      if (owed > 0) {
        origins[i] = moved;
        --owed;
      } else if (op != nullptr) {
        origins[i] = {Origin::kInside, std::string(short_name(*op->row)), ""};
      }
    }
  }
  return origins;
}

std::string_view to_string(Origin origin) {
  static constexpr std::string_view kNames[] = {"asked", "implicit", "inside"};
  return kNames[static_cast<std::size_t>(origin)];
}

std::string to_string(const CollectiveOrigin& origin) {
  switch (origin.origin) {
    case Origin::kAsked:
      return "asked for";
    case Origin::kImplicit:
      return fmt::format("implicit: {} of {}", origin.argument, origin.op);
    case Origin::kInside:
      break;
  }
  return "inside " + origin.op;
}

}  // namespace shardlab
