// packages.h - what the packages that shardlab needs are called by the package manager of a system,
// and the line that installs them. The names stand in packages.inc.
#pragma once

#include <string>
#include <string_view>

#include "sim/doctor/doctor.h"

namespace shardlab {

/// "apt", "dnf", "pacman", "brew" or "conda"; empty where none of them is known to be. An active
/// conda environment counts, unless it is the base, which is often active without being meant.
std::string package_manager(const MachineView& view);

/// The line that installs what `use` needs ("mpi", "nccl": the first column of the table). Without
/// a known package manager, the names that Debian has for it; empty where the manager has none.
std::string install_line(const MachineView& view, std::string_view use);

}  // namespace shardlab
