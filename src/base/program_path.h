// program_path.h - where the file of the running program is: scenarios, modules and pages are
// looked for beside it.
#pragma once

#include <filesystem>

namespace shardlab {

/// Absolute, without symbolic links; empty where the system does not tell.
std::filesystem::path program_path();

}  // namespace shardlab
