// files_below.h - folders in place of files on the command line.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// The files below a folder whose names end in one of these ways, sorted, so that runs have the
/// same order on every file system; a path that is no folder, as it is.
///   fails  Value: there are none, called `what`
std::vector<std::string> files_below(const std::string& path,
                                     std::initializer_list<std::string_view> endings,
                                     std::string_view what);

}  // namespace shardlab
