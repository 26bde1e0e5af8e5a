// element_types.h - C++ types of the dtypes and the dtypes in which kernels compute.
#pragma once

#include <Eigen/Core>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/fix.h"

namespace shardlab {

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

/// The dtype of a compute type.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::kI64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::kF32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kF64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::kC64;
  else {
    static_assert(std::is_same_v<T, std::complex<double>>, "not a compute type");
    return DType::kC128;
  }
}

/// Kernels compute in five types: every integer in i64 (stores wrap), f16 and bf16 in f32.
inline DType compute_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3FN:
      return DType::kF32;
    case DType::kF32:
    case DType::kF64:
    case DType::kC64:
    case DType::kC128:
      return dtype;
    case DType::kC32:
    case DType::kBC32:
      fail(ErrorKind::kUnsupported, Fix{"use complex64 instead: x.to(torch.complex64)"},
           "no kernel computes in {}", to_string(dtype));
    default:
      return DType::kI64;
  }
}

// The hardware's conversions where the processor has them; same bits as base/dtype.h.
inline float half_to_float(Half value) {
  return Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(value.bits));
}
inline Half float_to_half(float value) {
  if (value != value) return to_half(value);  // one NaN for all
  return {Eigen::half_impl::float_to_half_rtne(value).x};
}

}  // namespace shardlab
