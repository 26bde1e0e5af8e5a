#include "tensor/device.h"

namespace shardlab {

namespace {

// Elements from the first to the last one, gaps included.
std::int64_t extent_of(const TensorMeta& meta) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < meta.shape.size(); ++i) {
    if (meta.shape[i] == 0) return 0;
    last += (meta.shape[i] - 1) * meta.stride[i];
  }
  return last + 1;
}

}  // namespace

Tensor empty(Device& device, const TensorMeta& meta) {
  const auto size_bytes = static_cast<std::size_t>(extent_of(meta) * item_bytes(meta.dtype));
  return Tensor(make_ref<Storage>(device.allocate(size_bytes)), meta);
}

Tensor empty(Device& device, std::span<const std::int64_t> shape, DType dtype) {
  return empty(device, contiguous_meta(shape, dtype));
}

Tensor contiguous(const Tensor& tensor) {
  return tensor.contiguous() ? tensor : clone_contiguous(tensor);
}

Tensor clone_contiguous(const Tensor& tensor) {
  Device& device = *tensor.device();
  Tensor copy = empty(device, tensor.shape(), tensor.dtype());
  device.copy(copy, tensor);
  return copy;
}

}  // namespace shardlab
