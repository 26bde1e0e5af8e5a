// fixtures.h - tensors from literals, and kernels run on them.
#pragma once

#include <initializer_list>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "kernels/kernel_id.h"
#include "tensor/device.h"

namespace shardlab::test {

/// One CPU device with all kernels.
class Kernels {
 public:
  Device& device() { return *device_; }

  template <typename T>
  Tensor tensor(const Dims& shape, DType dtype, const std::vector<T>& values) {
    Tensor result = empty(*device_, shape, dtype);
    device_->write(result, values.data());
    return result;
  }
  Tensor f32(const Dims& shape, const std::vector<float>& values) {
    return tensor(shape, DType::kF32, values);
  }
  Tensor i64(const Dims& shape, const std::vector<std::int64_t>& values) {
    return tensor(shape, DType::kI64, values);
  }

  void run(KernelId kernel, const std::vector<LocalArg>& args, const std::vector<Tensor>& outputs,
           const LocalView* view = nullptr, RandomState random = {}) {
    device_->run({kernel, args, outputs, view, random});
  }
  /// The one output of this shape and dtype.
  Tensor run(KernelId kernel, const std::vector<LocalArg>& args, const Dims& shape,
             DType dtype = DType::kF32) {
    Tensor out = empty(*device_, shape, dtype);
    run(kernel, args, std::vector<Tensor>{out});
    return out;
  }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device(cpu_kernel_table());
};

/// Row-major values; T is the storage type of the dtype.
template <typename T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto count = static_cast<std::size_t>(tensor.numel());
  std::unique_ptr<T[]> values(new T[count]);
  tensor.device()->read(tensor, values.get());
  return std::vector<T>(values.get(), values.get() + count);
}

/// A matrix as its transpose, without a copy.
inline Tensor turned(const Tensor& x) {
  return x.as_view({{x.size(1), x.size(0)}, {1, x.size(1)}, x.dtype()}, 0);
}

}  // namespace shardlab::test
