// system_texts.h - a system's processor and memory, in the form of Linux.
#pragma once

#include <string>

#include "sim/doctor/doctor.h"

namespace shardlab {

/// Text in the form of /proc/cpuinfo: "model name", "flags". Empty if the system does not have
/// them.
std::string processor_text(const MachineView& view);
/// Text in the form of /proc/meminfo: "MemTotal", "MemAvailable" in KiB; empty likewise.
std::string memory_text(const MachineView& view);

}  // namespace shardlab
