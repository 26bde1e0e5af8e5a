// program_path.h - the path of the running program's file: scenarios, modules and pages are
// searched next to it.
#pragma once

#include <filesystem>

namespace shardlab {

/// Absolute, without symbolic links; empty where the system does not report it.
std::filesystem::path program_path();

}  // namespace shardlab
