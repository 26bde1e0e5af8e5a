// host.h - values on the host, for reports, verification and scalar reads. Orders the host after
// the device's stream; fails with Unsupported on shape-only devices.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/device.h"

namespace shardlab {

/// True for tensors on the device "cpu".
bool on_host(const Tensor& tensor);
/// The address of its first element. The tensor is on the host.
const std::byte* first_byte(const Tensor& tensor);
/// The one element of a one-element tensor. Fails with Value otherwise.
Scalar read_scalar(const Tensor& tensor);
/// Row-major values as stored, in the tensor's dtype.
std::vector<std::byte> read_bytes(const Tensor& tensor);
/// The same, where they are if the tensor is contiguous on the host, else in `copy`.
std::span<const std::byte> bytes_of(const Tensor& tensor, std::vector<std::byte>& copy);
/// Row-major values; complex ones as two numbers (re, im). Integers beyond 2^53 lose bits: use
/// read_integers for them.
std::vector<double> read_doubles(const Tensor& tensor);
/// Calls visit(values) with the same as a std::span: floats as they are stored, all else as
/// doubles.
void with_numbers(const Tensor& tensor, const auto& visit) {
  if (tensor.dtype() != DType::kF32) {
    const std::vector<double> values = read_doubles(tensor);
    return visit(std::span(values));
  }
  std::vector<std::byte> copy;
  const std::span bytes = bytes_of(tensor, copy);
  visit(std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)));
}
/// Row-major values of an integer or bool tensor.
std::vector<std::int64_t> read_integers(const Tensor& tensor);
/// Writes row-major values, rounding to the tensor's dtype; sizes must agree.
void write_doubles(const Tensor& tensor, std::span<const double> values);
void write_integers(const Tensor& tensor, std::span<const std::int64_t> values);

}  // namespace shardlab
