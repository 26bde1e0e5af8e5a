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
  CHECK(launch.job == "abc");
}

TEST_CASE("by hand: MASTER_PORT itself") {
  const Launch launch = launch_in(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4711"}});
  CHECK(launch.port == 4711);
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
  // All ranks of a step come to the same port, those of another step to another one.
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
  CHECK(refusal(variables) == "mpirun started ranks on several hosts: where is rank 0?");
  variables["MASTER_ADDR"] = "node1";
  CHECK(launch_in(variables).host == "node1");
}

TEST_CASE("first hosts of node lists") {
  CHECK(first_host("node1") == "node1");
  CHECK(first_host("node1,node2") == "node1");
  CHECK(first_host("node[1-4]") == "node1");
  CHECK(first_host("rack2-n[007,009-011],x") == "rack2-n007");
}

TEST_CASE("what does not say where this process is, is refused") {
  CHECK(refusal({}) == "nothing says which rank this process is");
  CHECK(refusal({{"RANK", "1"}}) == "WORLD_SIZE is not set");
  CHECK(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}) ==
        "RANK is x; it must be a whole number of 0 or more");
  CHECK(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}) ==
        "RANK is 2 and WORLD_SIZE is 2; the first must be less");
  CHECK(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}) ==
        "MASTER_ADDR is not set: where is rank 0?");
  // A job of one needs nobody.
  CHECK(refusal({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).empty());
}
