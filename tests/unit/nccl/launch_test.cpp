#include "backends/nccl/launch.h"

#include <doctest/doctest.h>

#include <map>

#include "base/error.h"

using namespace shardlab;
using namespace shardlab::nccl;

namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_in(const Variables& variables) {
  return launch_of([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal(const Variables& variables) {
  try {
    launch_in(variables);
    return "";
  } catch (const Error& error) {
    return error.summary();
  }
}

}  // namespace

TEST_CASE("torchrun: the port beside its own store's") {
  const Launch launch = launch_in({{"RANK", "5"},
                                   {"WORLD_SIZE", "8"},
                                   {"LOCAL_RANK", "1"},
                                   {"MASTER_ADDR", "node7"},
                                   {"MASTER_PORT", "29500"},
                                   {"TORCHELASTIC_RUN_ID", "abc"},
                                   {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  CHECK(launch.rank == 5);
  CHECK(launch.size == 8);
  CHECK(launch.local_rank == 1);
  CHECK(launch.host == "node7");
  CHECK(launch.port == 29501);
  CHECK(launch.ports == 16);
  CHECK(launch.job == "abc");
}

TEST_CASE("a job started by hand uses MASTER_PORT itself") {
  const Launch launch = launch_in(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4711"}});
  CHECK(launch.port == 4711);
  CHECK(launch.ports == 1);
  CHECK(launch.local_rank == 1);
}

TEST_CASE("Slurm: rank 0 is on the first host of the step") {
  Variables variables{{"SLURM_PROCID", "3"},
                      {"SLURM_NTASKS", "4"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_JOB_ID", "77"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"},
                      {"SLURM_STEP_NODELIST", "gpu[03-05,9],login"}};
  const Launch launch = launch_in(variables);
  CHECK(launch.rank == 3);
  CHECK(launch.size == 4);
  CHECK(launch.local_rank == 1);
  CHECK(launch.host == "gpu03");
  // All ranks of a step find the same port, those of another step another one.
  variables["SLURM_PROCID"] = "0";
  CHECK(launch_in(variables).port == launch.port);
  variables["SLURM_STEP_ID"] = "1";
  CHECK(launch_in(variables).port != launch.port);
  variables["MASTER_PORT"] = "1234";
  CHECK(launch_in(variables).port == 1234);
  variables.erase("SLURM_STEP_NODELIST");
  CHECK(launch_in(variables).host == "10.0.0.9");
  variables["MASTER_ADDR"] = "head";
  CHECK(launch_in(variables).host == "head");
}

TEST_CASE("mpirun: one host; several need MASTER_ADDR") {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"PMIX_NAMESPACE", "1234567"}};
  CHECK(launch_in(variables).host == "127.0.0.1");
  CHECK(launch_in(variables).rank == 1);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  CHECK(refusal(variables) ==
        "mpirun of Open MPI started ranks on several hosts: where is rank 0?");
  variables["SLURM_JOB_NODELIST"] = "gpu[2-5]";
  CHECK(launch_in(variables).host == "gpu2");
  variables["MASTER_ADDR"] = "node1";
  CHECK(launch_in(variables).host == "node1");
}

TEST_CASE("MPICH, Intel MPI and Cray: ranks of the launcher, one host") {
  Variables mpich{
      {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}};
  Launch launch = launch_in(mpich);
  CHECK(launch.by == "mpiexec of MPICH or Intel MPI");
  CHECK(launch.rank == 3);
  CHECK(launch.size == 4);
  CHECK(launch.local_rank == 3);
  CHECK(launch.host == "127.0.0.1");
  mpich["MPI_LOCALNRANKS"] = "2";
  mpich["MPI_LOCALRANKID"] = "1";
  CHECK(refusal(mpich) ==
        "mpiexec of MPICH or Intel MPI started ranks on several hosts: where is rank 0?");
  const Variables cray{{"PALS_RANKID", "5"},       {"PMI_RANK", "5"},       {"PMI_SIZE", "8"},
                       {"PALS_LOCAL_RANKID", "1"}, {"PMI_LOCAL_SIZE", "4"}, {"PALS_APID", "x"},
                       {"MASTER_ADDR", "nid1"}};
  launch = launch_in(cray);
  CHECK(launch.by == "mpiexec of Cray PALS");
  CHECK(launch.rank == 5);
  CHECK(launch.local_rank == 1);
  CHECK(launch.host == "nid1");
}

TEST_CASE("launchers inside of others: the inner one counts") {
  // A batch script of Slurm's is task 0 of as many as it asked for, and so are all processes that
  // it starts.
  const Variables batch{{"SLURM_PROCID", "0"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_LOCALID", "0"},
                        {"SLURM_JOB_ID", "77"},
                        {"SLURM_JOB_NODELIST", "gpu[03-04]"}};
  Variables inner = batch;
  inner.insert({{"OMPI_COMM_WORLD_RANK", "3"},
                {"OMPI_COMM_WORLD_SIZE", "8"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                {"PMIX_NAMESPACE", "n"}});
  CHECK(launch_in(inner).rank == 3);
  CHECK(launch_in(inner).size == 8);
  CHECK(launch_in(inner).local_rank == 1);
  CHECK(launch_in(inner).host == "gpu03");
  inner = batch;
  inner.insert({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "2"}});
  CHECK(launch_in(inner).rank == 2);
  inner = batch;
  inner.insert({{"PALS_RANKID", "2"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "4"}});
  CHECK(launch_in(inner).by == "mpiexec of Cray PALS");
  inner.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node7"}});
  CHECK(launch_in(inner).rank == 1);
  CHECK(launch_in(inner).host == "node7");
  // srun sets PMI_RANK itself when it is used in place of another launcher.
  inner = batch;
  inner["SLURM_PROCID"] = "2";
  inner.insert({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}});
  CHECK(launch_in(inner).by == "srun");
  CHECK(launch_in(inner).rank == 2);
}

TEST_CASE("one visible device is the rank's, of several that of its local rank") {
  const Launch launch = launch_in(
      {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "3"}, {"MASTER_ADDR", "a"}});
  const auto nothing = [](const std::string&) { return std::optional<std::string>(); };
  const auto ordinal = [](const std::string& name) {
    return name == "SHARDLAB_DEVICE_ORDINAL" ? std::optional<std::string>("5") : std::nullopt;
  };
  CHECK(ordinal_of(launch, nothing, 1) == 0);
  CHECK(ordinal_of(launch, nothing, 4) == 3);
  CHECK(ordinal_of(launch, ordinal, 8) == 5);
}

TEST_CASE("first hosts of node lists") {
  CHECK(first_host("node1") == "node1");
  CHECK(first_host("node1,node2") == "node1");
  CHECK(first_host("node[1-4]") == "node1");
  CHECK(first_host("rack2-n[007,009-011],x") == "rack2-n007");
}

TEST_CASE("an environment that does not place this process is refused") {
  CHECK(refusal({}) == "nothing says which rank this process is");
  CHECK(refusal({{"RANK", "1"}}) == "WORLD_SIZE is not set");
  CHECK(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}) ==
        "RANK is x; it must be a whole number of 0 or more");
  CHECK(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}) ==
        "RANK is 2 and WORLD_SIZE is 2; the first must be less");
  CHECK(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}) ==
        "MASTER_ADDR is not set: where is rank 0?");
  // Others hear it where rank 0 is known.
  const auto place = [](const Variables& variables) {
    return rank_zero_of([&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  };
  CHECK(!place({}));
  const auto known =
      place({{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "7"}});
  CHECK((known->rank == -1 && known->size == 2 && known->host == "a" && known->port == 7));
  CHECK(place({{"RANK", "3"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}})->rank == 3);
  CHECK(place({{"RANK", "1"}, {"WORLD_SIZE", "2"}})->host == "127.0.0.1");
  CHECK(!place({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "x"}}));
  // A job of one waits for no other rank.
  CHECK(refusal({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).empty());
}
