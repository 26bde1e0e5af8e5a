// from_root.h - collectives in which one rank sends to all: each way between hosts is taken once.
#pragma once

#include "backends/mpi/desk.h"

namespace shardlab::mpi {

void broadcast(const DeskRef& desk, Operation& operation, const backends::Call& call);
void scatter(const DeskRef& desk, Operation& operation, const backends::Call& call);

}  // namespace shardlab::mpi
