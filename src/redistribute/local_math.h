// local_math.h - the arithmetic that changing placements needs on one rank. Uses only Device, so
// that it runs wherever the tensors are. Inputs are not written to.
#pragma once

#include "tensor/device.h"

namespace shardlab {

/// x / divisor.
Tensor divided(const Tensor& x, double divisor);
/// x to the power of a number, elementwise.
Tensor powered(const Tensor& x, double exponent);
/// x in another dtype; itself when it has that one.
Tensor converted_to(const Tensor& x, DType dtype);
/// A contiguous tensor of zeros.
Tensor zeros(Device& device, std::span<const std::int64_t> shape, DType dtype);
/// x with 0 where `mask` is true. The mask may lack trailing dims of x (row lookups: one entry per
/// row). Fails with Internal when it fits no leading dims of x.
Tensor masked(const Tensor& x, const Tensor& mask);

}  // namespace shardlab
