// flight_writer.h - a run on simulated ranks as dumps that PyTorch's analyzer reads.
#pragma once

#include <string>

#include "backends/shared/fabric_log.h"

namespace shardlab {

/// Writes FOLDER/shardlab_rank_N for each rank, pickles of protocol 2. Times are counts of calls, a
/// frame is the program's line: the same run gives the same bytes.
///   fails  Value: the folder cannot be written
void write_flight_dumps(const std::string& folder, const FabricLog& log, std::int64_t ranks);

}  // namespace shardlab
