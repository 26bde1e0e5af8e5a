// system_texts.h - a system's processor and memory, in the form of Linux.
#pragma once

#include <string>

#include "sim/doctor/doctor.h"

namespace shardlab {

/// As /proc/cpuinfo: "model name", "flags"; empty if the system does not have them.
std::string processor_text(const MachineView& view);
/// As /proc/meminfo: "MemTotal", "MemAvailable" in KiB; empty likewise.
std::string memory_text(const MachineView& view);

}  // namespace shardlab
