// bounds.h - whether a view stays within its storage.
#pragma once

#include "tensor/tensor.h"

namespace shardlab {

/// The failure of check_within_storage: element `first` or `last` is outside.
[[noreturn]] void fail_outside_storage(const Tensor& tensor, std::int64_t first, std::int64_t last);

/// Checks every element that the tensor's shape, strides and offset reach; a tensor without
/// elements reaches none. A view's first and last element follow from its strides alone: negative
/// ones lead down from the offset, the others up. Inline: every operand of every kernel is checked.
///   fails   Internal: an element is outside of the storage
inline void check_within_storage(const Tensor& tensor) {
  const std::int64_t* const sizes = tensor.shape().data();
  const std::int64_t* const strides = tensor.stride().data();
  std::int64_t first = tensor.offset(), last = tensor.offset();
  bool empty = false;
  for (std::size_t d = 0, dims = tensor.shape().size(); d < dims; ++d) {
    const std::int64_t reach = (sizes[d] - 1) * strides[d];
    empty |= sizes[d] == 0;
    first += reach < 0 ? reach : 0;
    last += reach < 0 ? 0 : reach;
  }
  if (empty) return;
  const auto bytes = static_cast<std::int64_t>(tensor.storage()->buffer()->size_bytes());
  std::int64_t needed = 0;
  const bool counted = !__builtin_mul_overflow(last + 1, item_bytes(tensor.dtype()), &needed);
  if (first < 0 || !counted || needed > bytes) fail_outside_storage(tensor, first, last);
}

}  // namespace shardlab
