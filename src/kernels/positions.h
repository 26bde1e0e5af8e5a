// positions.h - the places of a local tensor's elements in the global tensor.
#pragma once

#include "tensor/device.h"

namespace shardlab {

/// Calls visit(first local index, first global index, count) for runs of elements that follow each
/// other in both row-major orders. Without a view local and global are the same.
void for_each_run(const Tensor& tensor, const LocalView* view, auto&& visit) {
  if (tensor.numel() == 0) return;
  if (view == nullptr || tensor.dim() == 0) return visit(0, 0, tensor.numel());
  const Dims global_stride = contiguous_strides(view->global_shape);
  const std::size_t inner = view->dims.size() - 1;
  Dims index(inner, 0);
  for (std::int64_t local = 0; local < tensor.numel();) {
    std::int64_t row = 0;
    for (std::size_t d = 0; d < inner; ++d) {
      row += view->dims[d].global_index(index[d]) * global_stride[d];
    }
    for (const IndexRun& run : view->dims[inner].runs) {
      visit(local, row + run.offset, run.size);
      local += run.size;
    }
    for (std::size_t d = inner; d-- > 0 && ++index[d] == tensor.shape()[d];) index[d] = 0;
  }
}

}  // namespace shardlab
