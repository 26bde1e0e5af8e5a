// stack_map.h - memory for stacks, and what a system says when a guard below one is touched.
#pragma once

#include <csignal>
#include <cstddef>

namespace shardlab {

/// Memory that costs nothing until it is touched; null, and errno, where there is no room for it.
void* map_stacks(std::size_t size_bytes);

/// The memory behind the map goes back to the system; what is read there next is undefined.
void forget_contents(void* map, std::size_t size_bytes);

/// How many maps a process may have; 0 where the system has no such limit, or does not tell.
std::size_t most_maps();

/// The signal of a touched page that nobody may read or write. What macOS does has not been tried.
#ifdef __APPLE__
inline constexpr int kGuardSignal = SIGBUS;
#else
inline constexpr int kGuardSignal = SIGSEGV;
#endif

}  // namespace shardlab
