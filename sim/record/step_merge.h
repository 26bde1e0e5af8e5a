// step_merge.h - recordings of the ranks of one program, one file a process, made one file.
#pragma once

#include <string>
#include <vector>

namespace shardlab {

/// The outcome.
struct MergedSteps {
  std::size_t ranks = 0, events = 0;
  std::size_t bytes = 0;  ///< of the file
};
/// Writes to `out` the recording that all ranks' are: what is the same stays, what differs is one
/// of each rank. Parts of fingerprints add up. Where ranks make different calls, or exchange
/// messages, each rank's events stay its own (step_streams.h).
///   fails  Value: not the files of all ranks of one program; a message that was never sent.
///          Unsupported: ranks that part in a program on DTensors; the first event where they part
///          is named with its place
MergedSteps merge_steps(const std::vector<std::string>& paths, const std::string& out);

}  // namespace shardlab
