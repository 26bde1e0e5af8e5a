// The error of a view that leaves its storage: the elements that it reaches, and how many there
// are.
#include "tensor/bounds.h"

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

void fail_outside_storage(const Tensor& tensor, std::int64_t first, std::int64_t last) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage()->buffer()->size_bytes());
  fail(ErrorKind::kInternal,
       "a view of shape [{}] and strides [{}] reaches from element {} to {} of a storage of {}",
       text_of_list(tensor.shape(), ", "), text_of_list(tensor.stride(), ", "), first, last,
       bytes / item_bytes(tensor.dtype()));
}

}  // namespace shardlab
