// watch.h - a command that runs again whenever its files change.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace shardlab {

/// Runs the command, then again each time when a file in the folder of one of these was written,
/// added or removed, of the kinds that scenarios read: .toml .py .npy .graph. A terminal is cleared
/// before. Errors of the command are printed. Does not return; Ctrl-C ends the process.
///   fails  Value: standard input is among the files
[[noreturn]] void watch(const std::vector<std::string>& files, const std::function<int()>& command);

}  // namespace shardlab
