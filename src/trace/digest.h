// digest.h - the elements of plain tensors as data of a graph, and whether bits are the same.
#pragma once

#include <cstdint>
#include <vector>

#include "mesh/dtensor.h"
#include "tensor/scalar.h"

namespace shardlab {

/// Equal for equal dtype, shape and bits of this rank's piece; of devices without data, for equal
/// shapes. Waits for a pending result.
std::uint64_t digest_of(const Tensor& tensor);

/// The digest of several values, in order.
std::uint64_t combined_digest(const std::vector<std::uint64_t>& digests);

/// All elements, row-major; none on a device without data.
std::vector<Scalar> scalars_of(const Tensor& tensor);
/// The reverse, on the running rank's device.
///   fails  Value: not one number per element
Tensor tensor_from(const std::vector<Scalar>& values, const Dims& shape, DType dtype);

}  // namespace shardlab
