// Sequences on device cuda and on the CPU, compared with torch 2.15's output for the same call.
#include <doctest/doctest.h>

#include "tests/unit/cuda/on_both.h"

using namespace shardlab;
using namespace shardlab::cuda;

namespace {

// Compares the integers, of the output's length, that either device writes.
void check_integers(KernelId id, const std::vector<LocalArg>& args, const Values& expected) {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto cpu = make_cpu_device(cpu_kernel_table());
  const Dims shape{static_cast<std::int64_t>(expected.size())};
  for (Device* device : {static_cast<Device*>(gpu.get()), cpu.get()}) {
    for (const DType dtype : {DType::kI32, DType::kI64}) {
      CAPTURE(device->type());
      const auto made = [&](Device&) { return args; };
      CHECK(given_by(*device, id, made, {{shape, dtype, {0}}})[0] == expected);
    }
  }
}

}  // namespace

TEST_CASE("V-29 cuda: integers of linspace go from an integer to an integer") {
  check_integers(KernelId::kLinspace, {Scalar(0.5), Scalar(4.7), Scalar(5)}, {0, 1, 2, 3, 4});
  check_integers(KernelId::kLinspace, {Scalar(-3.9), Scalar(4.9), Scalar(5)}, {-3, -1, 0, 2, 4});
}

TEST_CASE("V-29 cuda: integers of arange count in whole steps") {
  check_integers(KernelId::kArange, {Scalar(0.5), Scalar(5.0), Scalar(1.5)}, {0, 1, 2});
  check_integers(KernelId::kArange, {Scalar(-2.5), Scalar(5.0), Scalar(2.5)}, {-2, 0, 2});
}
