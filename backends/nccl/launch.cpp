// Launchers name rank, size and host in variables of their own; the first set of them that is there
// counts. Where no port is given it follows from the job's name, so that all processes find the
// same one without talking.
#include "backends/nccl/launch.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/fix.h"

namespace shardlab::nccl {

namespace {

// Ports that no service owns and few systems give out by themselves.
constexpr std::int64_t kFirstPort = 20'000;
constexpr std::int64_t kPorts = 10'000;

struct Starter {
  const char* rank;
  const char* size;
  const char* local_rank;
};
constexpr Starter kByHand{"RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Starter kSlurm{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};
constexpr Starter kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK"};

std::int64_t number(const Lookup& lookup, const char* name, std::optional<std::int64_t> otherwise) {
  const std::optional<std::string> text = lookup(name);
  if (!text && otherwise) return *otherwise;
  if (!text) {
    fail(ErrorKind::kValue, Fix{"start the ranks with torchrun, srun or mpirun, or set it"},
         "{} is not set", name);
  }
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stop != end || value < 0) {
    fail(ErrorKind::kValue, Fix{fmt::format("set {} to a number", name)},
         "{} is {}; it must be a whole number of 0 or more", name, *text);
  }
  return value;
}

// The same in all processes of a job, and seldom in two jobs of one host.
std::uint16_t port_of(const std::string& job) {
  std::uint64_t hash = 1469598103934665603ull;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<std::uint16_t>(kFirstPort + static_cast<std::int64_t>(hash % kPorts));
}

void find_rank_zero_by_hand(const Lookup& lookup, Launch& launch) {
  const std::optional<std::string> host = lookup("MASTER_ADDR");
  if (!host && launch.size > 1) {
    throw Error(ErrorKind::kValue, "MASTER_ADDR is not set: where is rank 0?")
        .with("fix",
              "start the ranks with torchrun, srun or mpirun, or set MASTER_ADDR and "
              "MASTER_PORT to the host and a free port of rank 0");
  }
  launch.host = host.value_or("127.0.0.1");
  launch.job = lookup("TORCHELASTIC_RUN_ID").value_or("by hand");
  const std::int64_t port = number(lookup, "MASTER_PORT", port_of(launch.job));
  const bool taken = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  launch.port = static_cast<std::uint16_t>(taken ? port + 1 : port);
}

void find_rank_zero_under_slurm(const Lookup& lookup, Launch& launch) {
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

void find_rank_zero_under_mpirun(const Lookup& lookup, Launch& launch) {
  launch.job =
      lookup("PMIX_NAMESPACE").value_or(lookup("OMPI_MCA_ess_base_jobid").value_or("mpirun"));
  const std::optional<std::string> host = lookup("MASTER_ADDR");
  const std::int64_t on_this_host = number(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE", launch.size);
  if (!host && on_this_host != launch.size) {
    throw Error(ErrorKind::kValue, "mpirun started ranks on several hosts: where is rank 0?")
        .with("fix", "mpirun -x MASTER_ADDR=HOST with the host of rank 0");
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

Launch launch_of(const Lookup& lookup) {
  const Starter* starter = nullptr;
  for (const Starter* known : {&kByHand, &kSlurm, &kOpenMpi}) {
    if (starter == nullptr && lookup(known->rank)) starter = known;
  }
  if (starter == nullptr) {
    throw Error(ErrorKind::kValue, "nothing says which rank this process is")
        .with("fix",
              "start the ranks with torchrun, srun or mpirun, or set RANK, WORLD_SIZE, "
              "LOCAL_RANK, MASTER_ADDR and MASTER_PORT");
  }
  Launch launch;
  launch.rank = number(lookup, starter->rank, std::nullopt);
  launch.size = number(lookup, starter->size, std::nullopt);
  launch.local_rank = number(lookup, starter->local_rank, launch.rank);
  if (launch.rank >= launch.size) {
    fail(ErrorKind::kValue, Fix{"start the ranks with torchrun, srun or mpirun, or set both"},
         "{} is {} and {} is {}; the first must be less", starter->rank, launch.rank, starter->size,
         launch.size);
  }
  if (starter == &kByHand) find_rank_zero_by_hand(lookup, launch);
  if (starter == &kSlurm) find_rank_zero_under_slurm(lookup, launch);
  if (starter == &kOpenMpi) find_rank_zero_under_mpirun(lookup, launch);
  return launch;
}

}  // namespace shardlab::nccl
