// tensor_data.h - numbers of a program in and out of tensors, on the host.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "mesh/dtensor.h"
#include "sim/language/values/value.h"
#include "tensor/device.h"

namespace shardlab {

/// Elements in row-major order; integers exactly, bool as 0 and 1.
///   fails  Unsupported: complex, or a device without data
std::vector<Number> read_numbers(const Tensor& tensor);

/// A contiguous tensor with these elements, rounded to `dtype`.
Tensor tensor_of(Device& device, std::span<const std::int64_t> shape, DType dtype,
                 std::span<const Number> numbers);

/// "f32[8@dp, 16]"; a plain tensor of at most 64 elements with its elements.
std::string tensor_text(const DTensor& tensor);

}  // namespace shardlab
