// Pipeline schedules as values: what a program needs to run one.
#include <filesystem>

#include "base/error.h"
#include "sim/files/text_lines.h"
#include "sim/language/run/dist_calls.h"
#include "sim/prove/diagram.h"
#include "sim/prove/pipeline_schedule.h"

namespace shardlab {

namespace {

// Each action is a step. One that computes takes a column, messages take none: gaps are the bubbles
// of the schedule.
ScheduleRows computations_of(const PipelineSchedule& schedule, const RankSteps& steps) {
  std::vector<std::vector<std::string>> texts;  // empty: does not compute
  for (const std::vector<PipelineCell>& row : schedule.ranks) {
    texts.emplace_back();
    for (const PipelineCell& cell : row) {
      for (const PipelineAction& action : cell) {
        const bool computes = action.kind <= PipelineAction::Kind::kBackwardWeight;
        texts.back().push_back(computes ? to_string(action) : "");
      }
    }
  }
  const StepDiagram diagram = diagram_of(steps, 0, [&](std::int32_t rank, std::int32_t step) {
    return texts[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)].empty() ? 0 : 1;
  });
  ScheduleRows rows(texts.size());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (std::size_t step = 0; step < texts[rank].size(); ++step) {
      const std::int32_t column = diagram.spans[rank][step].from;
      if (texts[rank][step].empty() || column < 0) continue;
      rows[rank].push_back({std::move(texts[rank][step]), column});
    }
  }
  return rows;
}

}  // namespace

// Rows of cells of (stage, "F", microbatch), lowered; the file is next to the program's.
Value run_pipeline_schedule(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("dist.pipeline_schedule(file, defer=)", std::move(call));
  if (!given["file"].is<std::string>()) given.refuse("file", "a path", "\"1f1b.csv\"");
  const std::filesystem::path own(in.setup().program->source->file());
  const std::string path = own.parent_path() / given["file"].as<std::string>();
  const Receives receives = given.flag_or("defer", false) ? Receives::kDeferred : Receives::kEarly;
  const PipelineSchedule schedule = read_pipeline_schedule(read_text(path), receives);
  const CheckedSchedule checked = check_schedule(schedule);
  for (const RefusedAction& one : checked.refused) {
    fail(Fix{"shardlab prove " + path}, "{}: rank {}, action {} {}: {}", path, one.rank, one.index,
         one.action, one.reason);
  }
  if (in.setup().sink != nullptr) {
    in.setup().sink->schedule_read(checked.live, computations_of(schedule, checked.steps));
  }
  Values rows;
  for (const std::vector<PipelineCell>& row : schedule.ranks) {
    Values cells;
    for (const PipelineCell& cell : row) {
      Values parts;
      for (const PipelineAction& action : cell) {
        parts.push_back(
            make_tuple({static_cast<std::int64_t>(action.stage), std::string(word_of(action.kind)),
                        static_cast<std::int64_t>(action.microbatch)}));
      }
      cells.push_back(make_list(std::move(parts)));
    }
    rows.push_back(make_list(std::move(cells)));
  }
  return make_list(std::move(rows));
}

}  // namespace shardlab
