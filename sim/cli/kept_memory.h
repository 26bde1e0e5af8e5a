// kept_memory.h - memory that is freed stays with the process, where the C library has a switch for
// it.
#pragma once

namespace shardlab {

/// At the start of the program.
void keep_freed_memory();

}  // namespace shardlab
