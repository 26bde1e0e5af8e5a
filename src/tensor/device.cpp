// Allocation and copies that every device shares. A tensor's extent reaches from its first to its
// last element, gaps included.
#include "tensor/device.h"

#include <limits>

namespace shardlab {

namespace {

// From the first to the last element, gaps included. A size that does not fit stays the largest
// one, which no device has.
std::int64_t extent_bytes(const TensorMeta& meta) {
  std::int64_t last = 0, step = 0, bytes = 0;
  bool fits = true;
  for (std::size_t i = 0; i < meta.shape.size(); ++i) {
    if (meta.shape[i] == 0) return 0;
    fits &= meta.shape[i] > 0 &&
            !__builtin_mul_overflow(meta.shape[i] - 1, meta.stride[i], &step) &&
            !__builtin_add_overflow(last, step, &last);
  }
  fits &= !__builtin_add_overflow(last, 1, &last) &&
          !__builtin_mul_overflow(last, item_bytes(meta.dtype), &bytes);
  return fits ? bytes : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

bool is_out_of_memory(const Error& error) {
  return error.summary().find(kCannotAllocate) != std::string::npos;
}

Tensor empty(Device& device, const TensorMeta& meta) {
  const auto size_bytes = static_cast<std::size_t>(extent_bytes(meta));
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
