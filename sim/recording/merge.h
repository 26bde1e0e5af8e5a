// merge.h - recordings of the ranks of one program, one file a process, made one file.
#pragma once

#include <string>
#include <vector>

namespace shardlab {

/// The outcome.
struct MergedRecordings {
  std::size_t ranks = 0, events = 0;
  std::size_t bytes = 0;                  ///< of the file
  std::vector<std::size_t> missing = {};  ///< ranks without a recording
};
/// Writes to `out` the common recording of all ranks: equal data is stored once, other data once
/// for each rank. Parts of fingerprints add up. If ranks make different calls, or exchange
/// messages, each rank keeps its own events (side_by_side.h). A file that is not there, or empty,
/// is that of a rank that was ended before it wrote.
///   fails  Value: not the files of all ranks of one program; as side_by_side(). Unsupported:
///          ranks that differ in a program on DTensors; the first different event is named with
///          its place
MergedRecordings merge_recordings(const std::vector<std::string>& paths, const std::string& out);

}  // namespace shardlab
