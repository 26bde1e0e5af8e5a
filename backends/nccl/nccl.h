// nccl.h - the backend `nccl`: one rank per process and device, data through NCCL (src/README.md,
// "Why these walls").
//
// Groups are split when a mesh is made; all collectives of a process share one stream. Reductions
// that NCCL does not do (see native.h) are gathered and combined in rank order on each rank;
// extrema of floats are taken of integers, so that NaN wins; f16 and bf16 sums are NCCL's own and
// round as it rounds; sums and products of bools are extrema of bytes, which are 0 or 1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/process/checks.h"
#include "backends/process/control_channel.h"
#include "comm/backend.h"

namespace shardlab::nccl {

/// Finds the job's other processes with the first call, which waits for them for
/// SHARDLAB_JOIN_SECONDS (60). The library is libnccl.so.2, or the file that SHARDLAB_NCCL_LIBRARY
/// names.
///   fails  Value when no variable gives the rank of this process (launch.h), Runtime naming the
///          processes that did not arrive, Unsupported without NCCL or in a build without this
///          backend
process::ControlChannel& join();

/// The backend of the run that has begun on the channel. Compared calls wait for rank 0's answer
/// before they reach NCCL: asynchronous ones no longer overlap.
std::unique_ptr<Backend> make_backend(CollectiveChecks checks);

/// The number of this process's device among those that it sees (launch.h, ordinal_of). After
/// join().
int device_ordinal();

/// "NCCL 2.28.9, CUDA 12.8, driver for CUDA 13.0". After join().
std::string libraries();

/// "torchrun --nproc-per-node 8 --no-python".
std::string launcher(std::int64_t ranks);

}  // namespace shardlab::nccl
