// stored_scalar.h - one element of a file that stores them as the processor does: little-endian.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "tensor/scalar.h"

namespace shardlab {

/// The element of type T whose bytes begin at `at`, which need not be aligned.
template <typename T>
Scalar stored_scalar(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::integral<T>) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::floating_point<T>) {
    return static_cast<double>(value);
  } else if constexpr (requires { to_float(value); }) {
    return static_cast<double>(to_float(value));
  } else {
    return std::complex<double>(value);
  }
}

}  // namespace shardlab
