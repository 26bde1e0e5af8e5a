// schedule_text.h - a pipeline schedule as CSV, as it was read and lowered.
#pragma once

#include <string>

#include "sim/prove/pipeline_schedule.h"

namespace shardlab {

inline std::string csv_of(const PipelineSchedule& schedule) {
  std::string text;
  for (const auto& row : schedule.ranks) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + to_string(row[i]);
    text += '\n';
  }
  return text;
}

}  // namespace shardlab
