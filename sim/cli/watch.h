// watch.h - a command that is done again whenever its files change.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace shardlab {

/// Does the command, then again each time when a file in the folder of one of these was written,
/// came or went, of the kinds that scenarios read: .toml .py .npy .graph. A terminal is cleared
/// before. Errors of the command are printed. Does not return; Ctrl-C ends the process.
///   fails  Value: standard input is among the files
[[noreturn]] void watch(const std::vector<std::string>& files, const std::function<int()>& command);

}  // namespace shardlab
