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

/// What a device does with ops that it has no kernel for.
enum class OpsWithoutKernel : std::uint8_t { kRefused, kOnHost };

/// What the user asked for.
struct DeviceChoice {
  std::string name = "cpu";
  OpsWithoutKernel without_kernel = OpsWithoutKernel::kRefused;
  std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();  ///< of host memory
};

/// "cpu", "cuda".
/// Known to this build; whether the machine has one shows when it is made.
std::vector<std::string_view> device_names();
/// The device of all ranks of this process: for a backend with one rank per process, number of the
/// process on its host. Fails with Value for an unknown name, with Unsupported where this build or
/// machine has no such device.
std::unique_ptr<Device> make_device(const DeviceChoice& choice, std::string_view backend);
/// Ops that the device has left to the host so far, sorted; none of a device that leaves none.
std::vector<std::string> ran_on_host(const Device& device);

}  // namespace shardlab
