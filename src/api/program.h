// program.h - the end of the chain of a program's calls: the action of each event.
#pragma once

#include "autograd/program.h"

namespace shardlab {

/// Executes events, on the tape of the running rank. Every rank of a world has it when its program
/// begins. Without state, so that one object serves all ranks.
ProgramCalls& plain_program();

}  // namespace shardlab
