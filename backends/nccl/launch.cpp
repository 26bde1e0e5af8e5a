// Launchers name rank, size and host in variables of their own. Several sets may be present, since
// an mpirun inside of a job of Slurm's inherits the variables that the job has for its one script:
// the first of the table counts. If no port is given it follows from the job's name, so that all
// processes find the same one without communication.
#include "backends/nccl/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/error.h"

namespace shardlab::nccl {

namespace {

// Ports that no service owns and few systems give out by themselves.
constexpr std::int64_t kFirstPort = 20'000;
constexpr std::int64_t kPorts = 10'000;
constexpr int kMostPort = 65'535;
constexpr int kPortsBesideStore = 16;

// A name of a variable, or two with a blank in between: the first that is set counts.
using Names = std::string_view;

struct Starter {
  const char* name;  ///< as users call it
  const char* sign;  ///< set by this launcher only
  const char *rank, *size;
  Names local_rank, local_size, job;  ///< may be empty
  void (*find_rank_zero)(const Lookup& lookup, const Starter& starter, Launch& launch);
};

void find_rank_zero_by_hand(const Lookup& lookup, const Starter& starter, Launch& launch);
void find_rank_zero_under_slurm(const Lookup& lookup, const Starter& starter, Launch& launch);
void find_rank_zero_under_mpi(const Lookup& lookup, const Starter& starter, Launch& launch);

// A launcher is listed before those whose jobs it may be started in: their variables are inherited
// by all of its processes. srun alone sets PMI_RANK, too, so it is not a sign.
constexpr Starter kStarters[] = {
    {"torchrun, or variables set by hand", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "", "",
     find_rank_zero_by_hand},
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE OMPI_MCA_ess_base_jobid", find_rank_zero_under_mpi},
    {"mpiexec of MPICH or Intel MPI", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS", "PMI_JOBID SLURM_JOB_ID", find_rank_zero_under_mpi},
    {"mpiexec of Cray PALS", "PALS_RANKID", "PALS_RANKID", "PMI_SIZE",
     "PALS_LOCAL_RANKID PMI_LOCAL_RANK", "PALS_LOCAL_SIZE PMI_LOCAL_SIZE", "PALS_APID PBS_JOBID",
     find_rank_zero_under_mpi},
    {"srun", "SLURM_PROCID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", "",
     find_rank_zero_under_slurm},
};

/// The first name that is set, or an empty one.
std::string first_set(const Lookup& lookup, Names names) {
  const std::string first(names.substr(0, names.find(' ')));
  if (first.empty() || lookup(first)) return first;
  const std::string second(names.substr(std::min(first.size() + 1, names.size())));
  return !second.empty() && lookup(second) ? second : "";
}

std::optional<std::int64_t> whole_number(const std::optional<std::string>& text) {
  std::int64_t value = -1;
  if (!text) return std::nullopt;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stop != end || value < 0) return std::nullopt;
  return value;
}

std::int64_t number(const Lookup& lookup, const std::string& name,
                    std::optional<std::int64_t> otherwise) {
  const std::optional<std::string> text = lookup(name);
  if (!text && otherwise) return *otherwise;
  if (!text) {
    fail(ErrorKind::kValue, Fix{"start the ranks with torchrun, srun or mpirun, or set it"},
         "{} is not set", name);
  }
  if (const auto value = whole_number(text)) return *value;
  fail(ErrorKind::kValue, Fix{fmt::format("set {} to a number", name)},
       "{} is {}; it must be a whole number of 0 or more", name, *text);
}

std::int64_t first_number(const Lookup& lookup, Names names, std::int64_t otherwise) {
  const std::string name = first_set(lookup, names);
  return name.empty() ? otherwise : number(lookup, name, std::nullopt);
}

// The same in all processes of a job, and seldom in two jobs of one host.
std::uint16_t port_of(const std::string& job) {
  std::uint64_t hash = 1469598103934665603ull;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<std::uint16_t>(kFirstPort + static_cast<std::int64_t>(hash % kPorts));
}

void find_rank_zero_by_hand(const Lookup& lookup, const Starter&, Launch& launch) {
  const std::optional<std::string> host = lookup("MASTER_ADDR");
  if (!host && launch.size > 1) {
    fail(Fix{"start the ranks with torchrun, srun or mpirun, or set MASTER_ADDR and MASTER_PORT to "
             "the host and a free port of rank 0"},
         "MASTER_ADDR is not set: where is rank 0?");
  }
  launch.host = host.value_or("127.0.0.1");
  launch.job = lookup("TORCHELASTIC_RUN_ID").value_or("by hand");
  const std::int64_t port = number(lookup, "MASTER_PORT", port_of(launch.job));
  const bool taken = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  launch.port = static_cast<std::uint16_t>(taken ? port + 1 : port);
  // This port is not reserved: it may be another program's.
  if (taken) launch.ports = std::min(kPortsBesideStore, kMostPort - launch.port + 1);
}

void find_rank_zero_under_slurm(const Lookup& lookup, const Starter&, Launch& launch) {
  launch.job = fmt::format("slurm {}.{}", lookup("SLURM_JOB_ID").value_or("0"),
                           lookup("SLURM_STEP_ID").value_or("0"));
  std::optional<std::string> host = lookup("MASTER_ADDR");
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (host) break;
    if (const std::optional<std::string> list = lookup(name)) host = first_host(*list);
  }
  if (!host) host = lookup("SLURM_LAUNCH_NODE_IPADDR");
  if (!host) {
    fail(ErrorKind::kValue,
         Fix{"start the ranks with srun, or set MASTER_ADDR to the host of rank 0"},
         "Slurm names no host: SLURM_STEP_NODELIST is not set");
  }
  launch.host = *host;
  launch.port = static_cast<std::uint16_t>(number(lookup, "MASTER_PORT", port_of(launch.job)));
}

void find_rank_zero_under_mpi(const Lookup& lookup, const Starter& starter, Launch& launch) {
  const std::string job = first_set(lookup, starter.job);
  launch.job = job.empty() ? starter.name : *lookup(job);
  std::optional<std::string> host = lookup("MASTER_ADDR");
  const std::int64_t on_this_host = first_number(lookup, starter.local_size, launch.size);
  if (!host && on_this_host != launch.size) {
    // Inside a job of Slurm's, ranks begin on the first of its hosts.
    const std::optional<std::string> list = lookup("SLURM_JOB_NODELIST");
    if (!list) {
      fail(Fix{"set MASTER_ADDR to the host of rank 0 on all of them (mpirun -x MASTER_ADDR=HOST, "
               "mpiexec -genv MASTER_ADDR HOST)"},
           "{} started ranks on several hosts: where is rank 0?", starter.name);
    }
    host = first_host(*list);
  }
  launch.host = host.value_or("127.0.0.1");
  launch.port = static_cast<std::uint16_t>(number(lookup, "MASTER_PORT", port_of(launch.job)));
}

}  // namespace

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

std::string first_host(const std::string& node_list) {
  const std::size_t end = node_list.find_first_of(",[");
  const std::string stem = node_list.substr(0, end);
  if (end == std::string::npos || node_list[end] == ',') return stem;
  const std::size_t number_end = node_list.find_first_of(",-]", end);
  return stem + node_list.substr(end + 1, number_end - end - 1);
}

std::vector<std::string> launchers_of(const Lookup& lookup) {
  std::vector<std::string> names;
  for (const Starter& known : kStarters) {
    if (lookup(known.sign)) names.emplace_back(known.name);
  }
  return names;
}

static const Starter* starter_in(const Lookup& lookup) {
  const auto* const found = std::ranges::find_if(
      kStarters, [&](const Starter& known) { return lookup(known.sign).has_value(); });
  return found == std::end(kStarters) ? nullptr : found;
}

std::optional<Launch> rank_zero_of(const Lookup& lookup) {
  const Starter* const starter = starter_in(lookup);
  if (starter == nullptr) return std::nullopt;
  Launch launch;
  launch.rank = whole_number(lookup(starter->rank)).value_or(-1);
  launch.size = whole_number(lookup(starter->size)).value_or(2);
  const Lookup at_home = [&](const std::string& name) {
    return name == "MASTER_ADDR" ? std::optional<std::string>("127.0.0.1") : lookup(name);
  };
  for (const Lookup& names : {lookup, at_home}) {
    try {
      starter->find_rank_zero(names, *starter, launch);
      return launch;
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

Launch launch_of(const Lookup& lookup) {
  const Starter* const starter = starter_in(lookup);
  if (starter == nullptr) {
    fail(Fix{"start the ranks with torchrun, srun or mpirun, or set RANK, WORLD_SIZE, LOCAL_RANK, "
             "MASTER_ADDR and MASTER_PORT"},
         "nothing says which rank this process is");
  }
  Launch launch;
  launch.by = starter->name;
  launch.rank = number(lookup, starter->rank, std::nullopt);
  launch.size = number(lookup, starter->size, std::nullopt);
  launch.local_rank = first_number(lookup, starter->local_rank, launch.rank);
  if (launch.rank >= launch.size) {
    fail(ErrorKind::kValue, Fix{"start the ranks with torchrun, srun or mpirun, or set both"},
         "{} is {} and {} is {}; the first must be less", starter->rank, launch.rank, starter->size,
         launch.size);
  }
  starter->find_rank_zero(lookup, *starter, launch);
  return launch;
}

int ordinal_of(const Launch& launch, const Lookup& lookup, int visible) {
  const bool shared = lookup("NCCL_MULTI_RANK_GPU_ENABLE").value_or("") == "1";
  const std::int64_t own = shared ? launch.local_rank % std::max(visible, 1) : launch.local_rank;
  const std::int64_t usual = visible == 1 ? 0 : own;
  return static_cast<int>(number(lookup, "SHARDLAB_DEVICE_ORDINAL", usual));
}

}  // namespace shardlab::nccl
