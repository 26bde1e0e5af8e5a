// stack_map.h - memory for stacks, and a system's signal when a guard below one is touched.
#pragma once

#include <csignal>
#include <cstddef>

namespace shardlab {

/// Memory that costs nothing until it is touched; null, and errno, if there is no room for it.
void* map_stacks(std::size_t size_bytes);

/// The memory behind the map is returned to the system; later reads are undefined.
void forget_contents(void* map, std::size_t size_bytes);

/// The limit on maps of a process; 0 if the system has no such limit, or does not report it.
std::size_t most_maps();

/// The signal after a touch of a page without access. macOS's signal has not been tried.
#ifdef __APPLE__
inline constexpr int kGuardSignal = SIGBUS;
#else
inline constexpr int kGuardSignal = SIGSEGV;
#endif

}  // namespace shardlab
