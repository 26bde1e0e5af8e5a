// Pipeline schedules as values: what a program needs to run one.
#include <filesystem>

#include "base/fix.h"
#include "sim/files/text_lines.h"
#include "sim/language/run/dist_calls.h"
#include "sim/prove/pipeline_schedule.h"

namespace shardlab {

// Rows of cells of (stage, "F", microbatch), lowered; the file is next to the program's.
Value run_pipeline_schedule(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("dist.pipeline_schedule", {"file", "defer="}, std::move(call));
  if (!given["file"].is<std::string>()) given.refuse("file", "a path", "\"1f1b.csv\"");
  const std::filesystem::path own(in.setup().program->source->file());
  const std::string path = own.parent_path() / given["file"].as<std::string>();
  const Receives receives = given.flag_or("defer", false) ? Receives::kDeferred : Receives::kEarly;
  const PipelineSchedule schedule = read_pipeline_schedule(read_text(path), receives);
  const CheckedSchedule checked = check_schedule(schedule);
  for (const RefusedAction& one : checked.refused) {
    fail(ErrorKind::kValue, Fix{"shardlab prove " + path}, "{}: rank {}, action {} {}: {}", path,
         one.rank, one.index, one.action, one.reason);
  }
  if (in.setup().sink != nullptr) in.setup().sink->schedule_read(checked.live);
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
