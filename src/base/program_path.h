// program_path.h - the path of the running program's file: scenarios, modules and pages are
// searched next to it.
#pragma once

#include <filesystem>
#include <string>

namespace shardlab {

/// Absolute, without symbolic links; empty where the system does not report it.
std::filesystem::path program_path();

/// A file that is installed as share/shardlab/`installed`: that one, next to the program's folder,
/// or else `source` of the repository that the program was built in, in a folder below it.
///   fails  Runtime: neither is there
std::filesystem::path shipped_file(const std::string& installed, const std::string& source);

}  // namespace shardlab
