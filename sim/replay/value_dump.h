// value_dump.h - values that a job has written by name (shardlab_record.dump_values).
#pragma once

#include <string>
#include <vector>

#include "sim/replay/points.h"

namespace shardlab {

/// Whether `path` is such a file, or `values.json.gz` in place of `values.r0.json.gz`, ...
bool is_value_dump(const std::string& path);

/// The values of all ranks, in the order of the job.
///   fails  Value: damaged; a rank's file is missing
std::vector<ComparedPoint> read_value_dump(const std::string& path);

}  // namespace shardlab
