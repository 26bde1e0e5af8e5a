// options.h - values that options take.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// A whole number, `lowest` or more.
CLI::Validator whole_number_from(std::int64_t lowest);

// Folders in place of files on the command line.

/// The files below a folder whose names end in one of these ways, sorted, so that runs have the
/// same order on every file system; a path that is no folder, as it is.
///   fails  Value: there are none, called `what`
std::vector<std::string> files_below(const std::string& path,
                                     std::initializer_list<std::string_view> endings,
                                     std::string_view what);

}  // namespace shardlab
