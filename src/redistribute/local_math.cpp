// Each function is one kernel call on a fresh output, because inputs of a step may be shared with
// the program.
#include "redistribute/local_math.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/kernel_id.h"

namespace shardlab {
namespace {

template <std::size_t N>
Tensor run(KernelId kernel, const Tensor& like, const std::array<LocalArg, N>& args) {
  Device& device = *like.device();
  const Tensor result = empty(device, like.shape(), like.dtype());
  device.run({.kernel = kernel, .args = args, .outputs = {&result, 1}});
  return result;
}

}  // namespace

Tensor divided(const Tensor& x, double divisor) {
  return run<3>(KernelId::kDiv, x, {x, Scalar(divisor), std::monostate{}});
}

Tensor powered(const Tensor& x, double exponent) {
  return run<2>(KernelId::kPow, x, {x, Scalar(exponent)});
}

Tensor converted_to(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor result = empty(*x.device(), x.shape(), dtype);
  const std::array<LocalArg, 3> args{result, x, Scalar(false)};
  x.device()->run({.kernel = KernelId::kCopy, .args = args, .outputs = {&result, 1}});
  return result;
}

Tensor zeros(Device& device, std::span<const std::int64_t> shape, DType dtype) {
  const Tensor result = empty(device, shape, dtype);
  device.run({.kernel = KernelId::kZeros, .args = {}, .outputs = {&result, 1}});
  return result;
}

Tensor masked(const Tensor& x, const Tensor& mask) {
  TensorMeta meta = mask.meta();
  const bool fits = mask.dim() <= x.dim() &&
                    std::equal(mask.shape().begin(), mask.shape().end(), x.shape().begin());
  check_invariant(fits, "the mask of a mask partial does not fit its tensor");
  for (std::size_t dim = meta.shape.size(); dim < x.shape().size(); ++dim) {
    meta.shape.push_back(x.size(dim));
    meta.stride.push_back(0);
  }
  const std::int64_t offset = mask.offset();
  return run<3>(KernelId::kMaskedFill, x, {x, mask.as_view(std::move(meta), offset), Scalar(0)});
}

}  // namespace shardlab
