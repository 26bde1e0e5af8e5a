// program.h - the end of the chain of a program's calls: what each event does.
#pragma once

#include "autograd/program.h"

namespace shardlab {

/// Does what events say, on the tape of the running rank. Every rank of a world has it when its
/// program begins. Without state, so that one object serves all ranks.
ProgramCalls& plain_program();

}  // namespace shardlab
