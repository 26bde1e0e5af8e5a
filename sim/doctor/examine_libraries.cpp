// The installed MPI, CUDA and NCCL, asked without starting any of them.
#include "sim/doctor/packages.h"
#include "sim/doctor/probe.h"

namespace shardlab {

namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\n,"));
}

Finding program_finding(const MachineView& view, const char* area, const char* name,
                        const std::string& fix) {
  const std::string path = program_at(view, name);
  if (path.empty()) return {area, name, "not found", Health::kAbsent, fix};
  return {area, name, path};
}

// 12040 -> "12.4"
std::string cuda_version(long number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

// 22105 -> "2.21.5"
std::string nccl_version(long number) {
  const long major = number >= 10000 ? number / 10000 : number / 1000;
  const long rest = number >= 10000 ? number % 10000 : number % 1000;
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

Finding library_finding(const char* name, const Library& library, std::string (*version)(long),
                        const std::string& fix) {
  const LibraryAnswer answer = ask_library(library);
  if (answer.file.empty()) return {"cuda", name, "not found", Health::kAbsent, fix};
  if (answer.number == 0) {
    return {"cuda", name, answer.file + " opens, but reports no version", Health::kLow};
  }
  return {"cuda", name, fmt::format("{} ({})", version(answer.number), answer.file)};
}

}  // namespace

std::vector<Finding> examine_mpi(const MachineView& view) {
  const std::string install = install_line(view, "mpi");
  std::vector<Finding> findings;
  const LibraryAnswer answer = ask_library(
      {{"libmpi.so.40", "libmpi.so.12", "libmpi.so"}, "MPI_Get_library_version", AskForm::kText});
  if (answer.file.empty()) {
    findings.push_back({"mpi", "library", "not found", Health::kAbsent, install});
  } else {
    findings.push_back(
        {"mpi", "library",
         fmt::format("{} ({})",
                     answer.text.empty() ? "version not reported" : first_line(answer.text),
                     answer.file)});
  }
  findings.push_back(program_finding(view, "mpi", "mpirun", install));
  return findings;
}

std::vector<Finding> examine_cuda(const MachineView& view) {
  constexpr const char* kDriver =
      "install the driver of the GPU: sudo apt-get install nvidia-driver";
  std::vector<Finding> findings;
  const std::vector<std::string> gpus = names_in(view, "/proc/driver/nvidia/gpus");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string info =
        file_text(view, "/proc/driver/nvidia/gpus/" + gpus[i] + "/information");
    findings.push_back({"cuda", fmt::format("GPU {}", i),
                        fmt::format("{} at {}", field_of(info, "Model"), gpus[i])});
  }
  if (gpus.empty()) {
    findings.push_back({"cuda", "GPUs", "none found", Health::kAbsent,
                        "none is needed: simulated ranks run on the processor"});
  }
  const std::string driver =
      field_of(file_text(view, "/proc/driver/nvidia/version"), "NVRM version");
  findings.push_back(driver.empty() ? Finding{"cuda", "driver", "not loaded", Health::kAbsent,
                                              gpus.empty() ? "" : kDriver}
                                    : Finding{"cuda", "driver", driver});
  findings.push_back(library_finding("libcuda", {{"libcuda.so.1"}, "cuDriverGetVersion"},
                                     cuda_version, gpus.empty() ? "" : kDriver));
  findings.push_back(library_finding(
      "libcudart",
      {{"libcudart.so.13", "libcudart.so.12", "libcudart.so"}, "cudaRuntimeGetVersion"},
      cuda_version, "install the CUDA toolkit: https://developer.nvidia.com/cuda-downloads"));
  std::string nccl = install_line(view, "nccl");
  if (!nccl.empty()) nccl += " (for apt and dnf from NVIDIA's repository)";
  findings.push_back(library_finding("libnccl", {{"libnccl.so.2", "libnccl.so"}, "ncclGetVersion"},
                                     nccl_version, nccl));
  MachineView wider = view;
  wider.path += ":/usr/local/cuda/bin";
  findings.push_back(
      program_finding(wider, "cuda", "nvcc", "comes with the CUDA toolkit; builds .cu files"));
  return findings;
}

}  // namespace shardlab
