// kept_memory.h - memory that is freed stays with the process, where the C library has a switch for
// it.
#pragma once

namespace shardlab {

/// At the start of the program.
void keep_freed_memory();

/// Memory that is kept goes back to the system: before work that needs blocks of other sizes.
void give_back_freed_memory();

}  // namespace shardlab
