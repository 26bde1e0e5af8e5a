// The table of devices.
#include "sim/world/devices.h"

#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "backends/nccl/nccl.h"
#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu_kernels.h"

namespace shardlab {

std::int64_t machine_bytes() { return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); }

std::vector<std::string_view> device_names() { return {"cpu", "cuda"}; }

std::unique_ptr<Device> make_device(const DeviceChoice& choice, std::string_view backend) {
  if (choice.name == "cpu") return make_cpu_device(cpu_kernel_table(), choice.most_bytes);
  if (choice.name != "cuda") {
    throw Error(ErrorKind::kValue, fmt::format("no device named {}", choice.name))
        .with("fix", fmt::format("one of: {}", text_of_list(device_names(), ", ")));
  }
  const int ordinal = backend == "nccl" ? nccl::device_ordinal() : 0;
  return cuda::make_cuda_device(ordinal, choice.without_kernel == OpsWithoutKernel::kOnHost
                                             ? cuda::HostFallback::kAllow
                                             : cuda::HostFallback::kRefuse);
}

std::vector<std::string> ran_on_host(const Device& device) {
  const auto* gpu = dynamic_cast<const cuda::CudaDevice*>(&device);
  return gpu == nullptr ? std::vector<std::string>() : gpu->ran_on_host();
}

}  // namespace shardlab
