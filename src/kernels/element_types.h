// element_types.h - C++ types of the dtypes and the dtypes in which kernels compute.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "kernels/eigen_core.h"
#include "tensor/visit_elements.h"

namespace shardlab {

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

// Same bits as base/dtype.h. The hardware's conversion where the processor has it.
inline float half_to_float(Half value) {
  return Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(value.bits));
}
// Without a branch, so that compilers make vectors of it.
inline Half float_to_half(float value) {
  constexpr std::uint32_t kInfinite = 0x7F800000, kOverflows = 0x477FF000, kNormal = 0x38800000;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits & 0x80000000, magnitude = bits ^ sign;
  // Below the normal numbers the processor rounds: 0.5 has their last bit as its own.
  const float small = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(small) - 0x3F000000;
  // Half a unit more, and one for an odd last bit; 15 as the exponent's bias in place of 127.
  const std::uint32_t odd = magnitude >> 13 & 1;
  const std::uint32_t normal = (magnitude + 0xFFF + odd - 0x38000000) >> 13;
  std::uint32_t packed = magnitude < kNormal ? subnormal : normal;
  packed = magnitude >= kOverflows ? 0x7C00 : packed;
  packed = magnitude > kInfinite ? 0x7E00 : packed;  // one NaN for all
  return {static_cast<std::uint16_t>(packed | sign >> 16)};
}

/// An element as a T: as it is, or a bf16 as a float.
template <typename T, typename Source>
T widened(Source value) {
  if constexpr (std::is_same_v<Source, BFloat16>)
    return to_float(value);
  else
    return value;
}

}  // namespace shardlab
