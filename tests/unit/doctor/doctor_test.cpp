// A machine planted in a folder: the findings repeat the contents of its files.
#include "sim/doctor/doctor.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "sim/doctor/packages.h"
#include "sim/doctor/probe.h"
#include "sim/files/json_value.h"

using namespace shardlab;

namespace {

namespace fs = std::filesystem;

class Machine {
 public:
  Machine() : root_(fs::temp_directory_path() / ("shardlab_doctor_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~Machine() { fs::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void plant(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  MachineView view() const { return {root_.string(), (root_ / "bin").string()}; }
  fs::path root() const { return root_; }

 private:
  fs::path root_;
};

const Finding* find(const std::vector<Finding>& findings, std::string_view area,
                    std::string_view name) {
  for (const Finding& finding : findings) {
    if (finding.area == area && finding.name == name) return &finding;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("doctor: processor, memory and limits as the files tell them") {
  Machine machine;
  machine.plant("proc/cpuinfo", "model name\t: Some Processor\nflags\t\t: fpu avx2 fma sse\n");
  machine.plant("proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n");
  machine.plant("proc/sys/vm/max_map_count", "1000\n");
  const auto findings = examine_processor(machine.view());
  REQUIRE(find(findings, "processor", "model") != nullptr);
  CHECK(find(findings, "processor", "model")->value == "Some Processor");
  CHECK(find(findings, "processor", "features")->value == "avx2 fma");
  CHECK(find(findings, "memory", "size")->value == "16.0 GiB, 8.0 GiB of it available");
  const auto limits = examine_limits(machine.view());
  const Finding* maps = find(limits, "limits", "vm.max_map_count");
  REQUIRE(maps != nullptr);
  CHECK(maps->value == "1000: about 500 ranks as fibers, two maps each");
  CHECK(maps->health == Health::kLow);
  CHECK(maps->fix == "sudo sysctl vm.max_map_count=65530");
}

TEST_CASE("doctor: a processor without AVX2 is told what to build") {
  Machine machine;
  machine.plant("proc/cpuinfo", "model name : Old\nflags : fpu sse2\n");
  const auto findings = examine_processor(machine.view());
  const Finding* features = find(findings, "processor", "features");
  REQUIRE(features != nullptr);
  CHECK(features->health == Health::kLow);
  CHECK(features->fix.find("-Dcpu=generic") != std::string::npos);
}

TEST_CASE("doctor: GPUs, driver and links as the system lists them") {
  Machine machine;
  machine.plant("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t Some GPU\n");
  machine.plant("proc/driver/nvidia/version", "NVRM version: NVIDIA Kernel Module  550.1\n");
  machine.plant("sys/class/net/eth0/speed", "25000\n");
  machine.plant("sys/class/net/eth0/operstate", "up\n");
  machine.plant("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  const auto cuda = examine_cuda(machine.view());
  REQUIRE(find(cuda, "cuda", "GPU 0") != nullptr);
  CHECK(find(cuda, "cuda", "GPU 0")->value == "Some GPU at 0000:01:00.0");
  CHECK(find(cuda, "cuda", "driver")->value == "NVIDIA Kernel Module  550.1");
  const auto links = examine_links(machine.view());
  REQUIRE(find(links, "links", "eth0") != nullptr);
  CHECK(find(links, "links", "eth0")->value == "25000 Mbit/s, up");
  CHECK(find(links, "links", "mlx5_0")->value == "InfiniBand or RoCE, 400 Gb/sec (4X NDR)");
}

TEST_CASE("doctor: packages by the names of the system's package manager") {
  const struct {
    const char* release;
    const char* line;
  } systems[] = {
      {"PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n",
       "sudo apt-get install -y --no-install-recommends libopenmpi-dev openmpi-bin"},
      {"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
       "sudo apt-get install -y --no-install-recommends libopenmpi-dev openmpi-bin"},
      {"NAME=\"Fedora Linux\"\nID=fedora\nVERSION_ID=42\n", "sudo dnf install -y openmpi-devel"},
      {"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "sudo dnf install -y openmpi-devel"},
      {"ID=arch\n", "sudo pacman -S --needed openmpi"},
      {"ID=nixos\n", "install what Debian calls libopenmpi-dev openmpi-bin"},
  };
  for (const auto& [release, line] : systems) {
    Machine machine;
    machine.plant("etc/os-release", release);
    CHECK(install_line(machine.view(), "mpi") == line);
    CHECK(find(examine_mpi(machine.view()), "mpi", "mpirun")->fix == line);
  }
}

TEST_CASE("doctor: packages of a conda environment, and of macOS") {
  Machine machine;
  machine.plant("etc/os-release", "ID=fedora\n");
  MachineView view = machine.view();
  std::map<std::string, std::string> set{{"CONDA_PREFIX", "/c"}, {"CONDA_DEFAULT_ENV", "lab"}};
  view.variable = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  };
  CHECK(install_line(view, "mpi") == "conda install -y -c conda-forge openmpi");
  set["CONDA_DEFAULT_ENV"] = "base";
  CHECK(package_manager(view) == "dnf");
  machine.plant("System/Library/CoreServices/SystemVersion.plist", "");
  CHECK(install_line(view, "mpi") == "brew install open-mpi");
  CHECK(install_line(view, "nccl") == "");
}

TEST_CASE("doctor: a machine that tells nothing is no failure, and what is missing has a command") {
  Machine machine;
  const auto findings = examine(machine.view(), {"threads", "mpi"});
  CHECK(find(findings, "processor", "model")->value == "not reported");
  CHECK(find(findings, "mpi", "mpirun")->health == Health::kAbsent);
  CHECK(find(findings, "mpi", "mpirun")->fix.find("openmpi-bin") != std::string::npos);
  CHECK(find(findings, "cuda", "GPUs")->health == Health::kAbsent);
  CHECK(find(findings, "runs", "backend threads")->health == Health::kGood);
  CHECK(find(findings, "runs", "backend mpi")->health == Health::kAbsent);
  CHECK(find(findings, "runs", "backend nccl")->value ==
        "one rank a GPU: this program was built without it");
  const std::string text = doctor_text(findings, Color::kOff);
  CHECK(text.find("what would help\n") != std::string::npos);
  CHECK(nlohmann::json::parse(doctor_json(findings))["findings"].size() == findings.size());
}

TEST_CASE("doctor: a program on the path is found where it is") {
  Machine machine;
  machine.plant("bin/mpirun", "#!/bin/sh\n");
  fs::permissions(machine.root() / "bin/mpirun", fs::perms::owner_all);
  const auto findings = examine_mpi(machine.view());
  CHECK(find(findings, "mpi", "mpirun")->value == (machine.root() / "bin/mpirun").string());
}

TEST_CASE("doctor: a library that is not there gives no answer") {
  CHECK(ask_library({{"libnothing_of_this_name.so.7"}, "version"}).file.empty());
  // The C library opens, and has no such function.
  const LibraryAnswer answer = ask_library({{"libc.so.6"}, "no_function_of_this_name"});
  CHECK(answer.file == "libc.so.6");
  CHECK(answer.number == 0);
}

TEST_CASE("doctor: the launcher of this process, its rank and its device") {
  Machine machine;
  MachineView view = machine.view();
  CHECK(find(examine_launch(view), "launch", "started by")->health == Health::kAbsent);
  std::map<std::string, std::string> set{{"OMPI_COMM_WORLD_RANK", "3"},
                                         {"OMPI_COMM_WORLD_SIZE", "4"},
                                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                         {"MASTER_PORT", "4711"},
                                         {"SLURM_PROCID", "0"},
                                         {"CUDA_VISIBLE_DEVICES", "6"}};
  view.variable = [&](const std::string& name) -> std::optional<std::string> {
    if (!set.contains(name)) return std::nullopt;
    return set.at(name);
  };
  const auto findings = examine_launch(view);
  CHECK(find(findings, "launch", "started by")->value == "mpirun of Open MPI");
  CHECK(find(findings, "launch", "rank")->value == "3 of 4, 3 on its host");
  CHECK(find(findings, "launch", "rank 0")->value == "listens at 127.0.0.1 port 4711");
  CHECK(find(findings, "launch", "device")->value == "0 of 1 visible (CUDA_VISIBLE_DEVICES=6)");
  CHECK(find(findings, "launch", "not looked at")->value == "what srun set outside of it");
  const std::map<std::string, std::string> by_mpirun = set;
  set = {{"RANK", "0"},
         {"WORLD_SIZE", "2"},
         {"MASTER_ADDR", "node7"},
         {"MASTER_PORT", "65530"},
         {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  CHECK(find(examine_launch(view), "launch", "rank 0")->value ==
        "listens at node7 port 65531, or the first free one up to 65535");
  set = by_mpirun;
  set["CUDA_VISIBLE_DEVICES"] = "0,1";
  CHECK(find(examine_launch(view), "launch", "device")->fix.find("SHARDLAB_DEVICE_ORDINAL") == 0);
  set["OMPI_COMM_WORLD_SIZE"] = "2";
  const auto refused = examine_launch(view);
  CHECK(refused[0].health == Health::kLow);
  CHECK(refused[0].value ==
        "OMPI_COMM_WORLD_RANK is 3 and OMPI_COMM_WORLD_SIZE is 2; the first must be less");
}
