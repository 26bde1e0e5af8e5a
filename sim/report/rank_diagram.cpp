// Columns are those of a fabric that takes one step for each call: they show the order that the
// program asks for, not measured time.
#include "sim/report/rank_diagram.h"

#include "sim/files/json_value.h"
#include "sim/judge/posted_steps.h"
#include "sim/prove/diagram.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostCalls = 1000;

const char* kind_of(const Operation& operation) {
  return operation.kind == Operation::Kind::kCollective ? "collective"
         : operation.kind == Operation::Kind::kSend     ? "send"
                                                        : "receive";
}

Json calls_json(const FabricLog& log, std::int64_t world) {
  const RankSteps steps = promise_of(log, world).steps;
  const StepDiagram diagram = diagram_of(steps, 1, nullptr);
  std::vector<std::vector<const FabricLog::Call*>> posted(steps.ranks.size());
  for (const FabricLog::Event& event : log.events) {
    if (event.kind != FabricLog::Event::Kind::kPost) continue;
    posted[static_cast<std::size_t>(event.rank)].push_back(
        &log.calls[static_cast<std::size_t>(event.call)]);
  }
  Json json = {{"calls", Json::array()}, {"messages", Json::array()}};
  std::vector<std::vector<std::size_t>> drawn(steps.ranks.size());  // number of the call of a step
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < steps.ranks.size(); ++rank) {
    Json row = Json::array();
    std::size_t taken = 0;
    for (std::size_t step = 0; step < steps.ranks[rank].size(); ++step) {
      const RankStep& one = steps.ranks[rank][step];
      drawn[rank].push_back(row.size());
      if (one.posts.empty() || row.size() == kMostCalls) continue;
      bool complete = true;
      const std::int64_t line = posted[rank][taken]->position.line;
      for (std::size_t i = 0; i < one.posts.size(); ++i)
        complete &= posted[rank][taken++]->complete;
      const StepDiagram::Span& span = diagram.spans[rank][step];
      row.push_back({{"from", span.from},
                     {"to", complete && span.to >= 0 ? Json(span.to) : Json()},
                     {"text", one.text},
                     {"line", line},
                     {"kind", kind_of(one.posts[0])}});
    }
    most = std::max(most, posted[rank].size() - taken);
    json["calls"].push_back(std::move(row));
  }
  for (const StepDiagram::Message& one : diagram.messages) {
    const std::size_t from =
        drawn[static_cast<std::size_t>(one.from_rank)][static_cast<std::size_t>(one.from_step)];
    const std::size_t to =
        drawn[static_cast<std::size_t>(one.to_rank)][static_cast<std::size_t>(one.to_step)];
    if (from == kMostCalls || to == kMostCalls) continue;
    json["messages"].push_back({one.from_rank, from, one.to_rank, to});
  }
  if (most > 0) json["left_out"] = most;
  return json;
}

}  // namespace

Json rank_diagram(const ScenarioResult& result) {
  Json json;
  if (result.judgement.calls != nullptr && !result.judgement.calls->calls.empty()) {
    json = calls_json(*result.judgement.calls, result.run.scenario.world);
  }
  for (const std::vector<ScheduledAction>& rank : result.run.schedule) {
    Json row = Json::array();
    for (const ScheduledAction& action : rank) row.push_back({action.text, action.column});
    json["schedule"].push_back(std::move(row));
  }
  return json;
}

}  // namespace shardlab
