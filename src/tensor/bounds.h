// bounds.h - whether a view stays within its storage.
#pragma once

#include "tensor/tensor.h"

namespace shardlab {

/// Looks at every element that the tensor's shape, strides and offset reach; a tensor without
/// elements reaches none.
///   fails   Internal: an element lies outside of the storage
void check_within_storage(const Tensor& tensor);

}  // namespace shardlab
