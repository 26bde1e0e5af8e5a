// devices.h - the devices of this build, by name.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device.h"

namespace shardlab {

/// The treatment of ops without a kernel on a device.
enum class OpsWithoutKernel : std::uint8_t { kRefused, kOnHost };

/// The user's choice.
struct DeviceChoice {
  std::string name = "cpu";
  OpsWithoutKernel without_kernel = OpsWithoutKernel::kRefused;
  std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();  ///< of host memory
};

/// The size of the machine's memory.
std::int64_t machine_bytes();
/// "cpu", "cuda". Known to this build; whether the machine has one is seen when it is made.
std::vector<std::string_view> device_names();
/// The device of all ranks of this process: for a backend with one rank per process, number of the
/// process on its host. Fails with Value for an unknown name, with Unsupported if this build or
/// machine has no such device.
std::unique_ptr<Device> make_device(const DeviceChoice& choice, std::string_view backend);
/// Ops that the device has left to the host so far, sorted; none for a device that leaves none.
std::vector<std::string> ran_on_host(const Device& device);

}  // namespace shardlab
