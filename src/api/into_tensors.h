// into_tensors.h - the handling of collect_into() events, at the end of the chain of calls. Private
// to src/api.
#pragma once

#include "autograd/program.h"

namespace shardlab {

void run_collect_into(const CollectIntoEvent& event);
void run_wait(CollectiveWork& work);
/// Called before an event runs, where collectives are in flight.
///   fails  Runtime: it reads or writes what may not be read or written yet
void check_in_flight(const ProgramEvent& event);

}  // namespace shardlab
