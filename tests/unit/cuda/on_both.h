// on_both.h - one kernel on device cuda, with functions of the host in place of a GPU, and on the
// CPU: the same values element by element, NaN and the sign of zero included.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backends/cuda/cuda.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kernel_id.h"
#include "tensor/cpu_device.h"
#include "tensor/host.h"
#include "tests/support/host_table.h"

namespace shardlab::cuda {

using Values = std::vector<double>;

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// The dtypes that the device computes with.
inline constexpr DType kDtypes[] = {DType::kBool, DType::kU8,  DType::kI8,  DType::kI16,
                                    DType::kI32,  DType::kI64, DType::kF16, DType::kBF16,
                                    DType::kF32,  DType::kF64};

/// The layout of a tensor in memory: row by row, the dims in reverse, every second element.
enum class Lies { kDense, kTurned, kApart };
inline constexpr Lies kAllWays[] = {Lies::kDense, Lies::kTurned, Lies::kApart};

inline Tensor lying(Device& device, const Dims& shape, DType dtype, Lies lies) {
  TensorMeta meta = contiguous_meta(shape, dtype);
  if (lies == Lies::kTurned) {
    std::int64_t stride = 1;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      meta.stride[dim] = stride;
      stride *= shape[dim];
    }
  }
  if (lies == Lies::kApart) {
    for (std::int64_t& stride : meta.stride) stride *= 2;
  }
  const Tensor memory = empty(device, Dims{2 * product(shape) + 1}, dtype);
  return memory.as_view(meta, 1);
}

/// An argument or an output before it is on a device; `values` are repeated as often as it takes.
struct Given {
  Dims shape;
  DType dtype;
  Values values;
  Lies lies = Lies::kDense;

  Tensor on(Device& device) const {
    const Tensor tensor = lying(device, shape, dtype, lies);
    Values all(static_cast<std::size_t>(product(shape)));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = values[i % values.size()];
    write_doubles(tensor, all);
    return tensor;
  }
};

/// The outputs of a kernel; `made(device)` returns its arguments.
template <typename Made>
std::vector<Values> given_by(Device& device, KernelId id, const Made& made,
                             const std::vector<Given>& outputs) {
  const std::vector<LocalArg> args = made(device);
  std::vector<Tensor> tensors;
  for (const Given& output : outputs) tensors.push_back(output.on(device));
  device.run({id, args, tensors, nullptr, {}});
  std::vector<Values> values;
  for (const Tensor& tensor : tensors) values.push_back(read_doubles(tensor));
  return values;
}

inline bool same(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] != b[i] || std::signbit(a[i]) != std::signbit(b[i])) return false;
  }
  return true;
}

inline std::string shown(const std::vector<Values>& outputs) {
  std::string text;
  for (const Values& values : outputs) {
    for (const double value : values) text += std::to_string(value) + " ";
    text += "| ";
  }
  return text;
}

/// Empty if both devices give the same, else the values of each.
template <typename Made>
std::string difference(KernelId id, const Made& made, const std::vector<Given>& outputs) {
  const auto gpu = make_cuda_device(host_table(), 0, HostFallback::kRefuse);
  const auto cpu = make_cpu_device(cpu_kernel_table());
  const std::vector<Values> got = given_by(*gpu, id, made, outputs);
  const std::vector<Values> expected = given_by(*cpu, id, made, outputs);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!same(got[i], expected[i])) return shown(got) + " instead of " + shown(expected);
  }
  return {};
}

}  // namespace shardlab::cuda
