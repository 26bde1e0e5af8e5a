// pointwise.h - the pointwise kernels of every device: the function of each, its operands and their
// dtype. A device only supplies the loop.
#pragma once

#include <span>

#include "kernels/element_functions.h"
#include "kernels/kernel_id.h"
#include "tensor/device.h"

namespace shardlab {

/// The part of a device that pointwise kernels need.
class ElementRunner {
 public:
  /// out[i] = function(operands[0][i], ...), computed in the compute type of `promoted`. Tensors
  /// broadcast, numbers are constant. Fails with Unsupported for a dtype that the function or the
  /// device does not take.
  virtual void run(Element function, DType promoted, const Tensor& out,
                   std::span<const LocalArg> operands) = 0;
  /// Whether an element is 0 as a value of `dtype`.
  virtual bool has_zero(const Tensor& tensor, DType dtype) = 0;

 protected:
  ~ElementRunner() = default;
};

using PointwiseKernel = void (*)(ElementRunner& runner, const KernelCall& call);

/// By KernelId; null for kernels that are not pointwise.
std::span<const PointwiseKernel> pointwise_kernels();

}  // namespace shardlab
