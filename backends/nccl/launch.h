// launch.h - the job and the rank of this process, from the program that started it: torchrun,
// mpirun of Open MPI, mpiexec of MPICH, Intel MPI or Cray PALS, Slurm's srun, or variables set by
// hand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/process/control_channel.h"

namespace shardlab::nccl {

/// This process's place in its job, and where rank 0 is.
struct Launch : process::Membership {
  std::int64_t local_rank = 0;  ///< number of its device on the host
  std::string by = {};          ///< "srun": the launcher whose variables gave it
};

/// The value of an environment variable; none when unset or empty.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
/// A variable of this process's environment.
std::optional<std::string> environment(const std::string& name);

/// Those whose variables are present, in the order in which they are searched: "srun".
std::vector<std::string> launchers_of(const Lookup& lookup);

/// Reads, in this order: RANK, WORLD_SIZE, LOCAL_RANK (torchrun and by hand; MASTER_ADDR and
/// MASTER_PORT give the place of rank 0, where torchrun's own store listens there the next free
/// port is taken); OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK; PMI_RANK and PMI_SIZE with
/// MPI_LOCALRANKID (MPICH, Intel MPI); PALS_RANKID with PMI_SIZE (Cray); SLURM_PROCID,
/// SLURM_NTASKS, SLURM_LOCALID (rank 0 is on the first host of the node list). Under an MPI's
/// launcher all ranks are on one host, unless a job of Slurm's or MASTER_ADDR names that of rank 0.
/// MASTER_ADDR and MASTER_PORT win everywhere.
///   fails  Value, naming the variables, when none of these started the process, a number is none,
///          or rank 0 cannot be found
Launch launch_of(const Lookup& lookup);

/// The place of rank 0 where launch_of() fails, this host where nothing names another one; rank -1
/// and size 2 where these are not known.
std::optional<Launch> rank_zero_of(const Lookup& lookup);

/// The device of this process among those that it sees: the only one, else that of its local rank,
/// which begins anew behind the last one where NCCL lets ranks share a device
/// (NCCL_MULTI_RANK_GPU_ENABLE=1, from version 2.30 on); SHARDLAB_DEVICE_ORDINAL overrides this.
///   fails  Value when that is not a number
int ordinal_of(const Launch& launch, const Lookup& lookup, int visible);

/// "node03" of "node[03-05,7],other".
std::string first_host(const std::string& node_list);

}  // namespace shardlab::nccl
