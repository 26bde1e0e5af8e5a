// mpi.h - the backend `mpi`: one rank per process, data through MPI messages (src/README.md, "Why
// these walls").
//
// Values are bitwise those of backend threads: a reduction sends every rank its piece of all terms,
// combines them there in rank order (backends/shared/reduce.h) and, for all_reduce, gathers the
// pieces; MPI itself combines nothing. All dtypes and reduce ops, any group, uneven and empty
// pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/process/checks.h"
#include "backends/process/control_channel.h"
#include "comm/backend.h"

namespace shardlab::mpi {

/// Starts MPI with the first call. Fails with Runtime outside of a job of mpirun, srun or the like,
/// with Unsupported when this build has no MPI.
process::ControlChannel& join();

/// The backend of the run that has begun on the channel.
std::unique_ptr<Backend> make_backend(CollectiveChecks checks);

/// "Open MPI v4.1.4". After join().
std::string libraries();

/// "mpirun -n 8".
std::string launcher(std::int64_t ranks);

}  // namespace shardlab::mpi
