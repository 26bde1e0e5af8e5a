// local_tensor.h - plain tensors from numbers and back, for tests.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "tensor/tensor.h"

namespace shardlab {

/// On plain_device(), row-major. Complex tensors take real parts.
Tensor local_tensor(const Dims& shape, DType dtype, const std::vector<double>& values);
/// Row-major; of complex tensors the real parts.
std::vector<double> values_of(const Tensor& tensor);

}  // namespace shardlab
