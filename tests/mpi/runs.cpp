// Worlds one after the other in one job, and the number of communicators of MPI that they took:
// MPICH has 2,048. The count replaces MPI's own function, by MPI's interface for profilers.
#include <mpi.h>

#include <cstdio>

#include "comm/process_group.h"
#include "tests/support/on_ranks.h"

namespace {

int duplicates = 0;

}  // namespace

extern "C" int MPI_Comm_dup(MPI_Comm from, MPI_Comm* made) {
  duplicates += 1;
  return PMPI_Comm_dup(from, made);
}

int main() {
  using namespace shardlab;
  constexpr int kRuns = 20;
  WorldOptions world = plain_world(2);
  world.backend = "mpi";
  for (int i = 0; i < kRuns; ++i) {
    on_ranks(world, [](RankContext& rank) { rank.world->barrier(); });
  }
  std::printf("%d worlds took %d communicators\n", kRuns, duplicates);
  return duplicates == 1 ? 0 : 1;
}
