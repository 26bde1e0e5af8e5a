// A view's first and last element in memory follow from its strides alone: negative ones lead down
// from the offset, the others up.
#include "tensor/bounds.h"

#include "base/error.h"
#include "base/text_of_list.h"

namespace shardlab {

void check_within_storage(const Tensor& tensor) {
  std::int64_t first = tensor.offset(), last = tensor.offset();
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    const std::int64_t size = tensor.size(d), stride = tensor.stride()[d];
    if (size == 0) return;
    (stride < 0 ? first : last) += (size - 1) * stride;
  }
  const auto bytes = static_cast<std::int64_t>(tensor.storage()->buffer()->size_bytes());
  const std::int64_t item = item_bytes(tensor.dtype());
  std::int64_t needed = 0;
  const bool counted = !__builtin_mul_overflow(last + 1, item, &needed);
  if (first >= 0 && counted && needed <= bytes) return;
  const std::int64_t held = bytes / item;
  fail(ErrorKind::kInternal,
       "a view of shape [{}] and strides [{}] reaches from element {} to {} of a storage of {}",
       text_of_list(tensor.shape(), ", "), text_of_list(tensor.stride(), ", "), first, last, held);
}

}  // namespace shardlab
