// cuda.h - the device `cuda`: memory and kernels of one GPU, through a module that is loaded when a
// run asks for it; this program links no CUDA library.
//
// Everything runs in order on one stream, and only reads wait. dtypes: bool, integers, f16, bf16,
// f32, f64; complex numbers and f8 are stored and moved, not computed with. Indices out of range
// are refused when the op runs, which waits for the stream. Values of reductions and products are
// those of another order of adding up than the CPU's: inside the envelope.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/table.h"
#include "backends/shared/stream_device.h"

namespace shardlab::cuda {

/// The handling of an op without a kernel here.
enum class HostFallback : std::uint8_t { kRefuse, kAllow };

/// Thread-safe.
class CudaDevice : public backends::StreamDevice {
 public:
  /// Ops that ran on the host, each once, sorted.
  virtual std::vector<std::string> ran_on_host() const = 0;
  /// "NVIDIA H200, 132 multiprocessors, CUDA 13.0".
  virtual std::string description() const = 0;
};

/// GPU number `ordinal` of this host. Fails with Unsupported when this build has no CUDA module or
/// the module finds no such GPU.
std::unique_ptr<CudaDevice> make_cuda_device(int ordinal, HostFallback fallback);
/// The fix for a missing module, on a machine with this PATH: it does not ask to install what the
/// machine has.
std::string_view fix_for_missing_module(const std::string& path);
/// The same device over other functions; tests run it on the host.
std::unique_ptr<CudaDevice> make_cuda_device(const Table& table, int ordinal,
                                             HostFallback fallback);

}  // namespace shardlab::cuda
