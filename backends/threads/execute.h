// execute.h - the work of a collective, done once for all ranks of the group.
#pragma once

#include <span>

#include "backends/shared/call.h"
#include "backends/threads/crew.h"

namespace shardlab::threads {

/// Fills in the results of all calls, by group rank; they are consistent. A result that is equal on
/// all ranks is one shared Buffer; one that is a whole Buffer already (broadcast, permute) is that
/// Buffer. Fails with Runtime without memory, with Unsupported for a reduction that the device
/// does not do.
void execute(std::span<backends::Call* const> calls, Crew& crew);

}  // namespace shardlab::threads
