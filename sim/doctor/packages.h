// packages.h - names that the package manager of a system has for the packages that shardlab needs,
// and the line that installs them. The names are in packages.txt.
#pragma once

#include <string>
#include <string_view>

#include "sim/doctor/doctor.h"

namespace shardlab {

/// "apt", "dnf", "pacman", "brew" or "conda"; empty if none of them is found. An active conda
/// environment counts, unless it is the base, which is often active by default.
std::string package_manager(const MachineView& view);

/// The line that installs the packages for `use` ("mpi", "nccl": the first column of the table).
/// Without a known package manager, the names that Debian has for it; empty if the manager has
/// none.
std::string install_line(const MachineView& view, std::string_view use);

}  // namespace shardlab
