// elements.h - reading and writing one element of any dtype; for GPUs and for the host.
#pragma once

// SHARDLAB_APART: not inlined into kernels that would repeat it often, which takes minutes to
// compile.
#ifdef __CUDACC__
#include <cuda_fp16.h>
#define SHARDLAB_HD __host__ __device__
#include <cmath>
#include <cstdint>
#include <type_traits>

#define SHARDLAB_APART __noinline__
#else
#define SHARDLAB_APART
#endif

#include "backends/cuda/table.h"
#include "kernels/math_functors.h"

namespace shardlab::cuda {

SHARDLAB_HD inline float half_to_float(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(bits));
#else
  return to_float(Half{bits});
#endif
}

SHARDLAB_HD inline std::uint16_t float_to_half(float value) {
#ifdef __CUDA_ARCH__
  if (value != value) return 0x7E00;
  return __half_as_ushort(__float2half_rn(value));
#else
  return to_half(value).bits;
#endif
}

SHARDLAB_HD inline float bfloat16_to_float(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
#else
  return to_float(BFloat16{bits});
#endif
}

SHARDLAB_HD inline std::uint16_t float_to_bfloat16(float value) {
#ifdef __CUDA_ARCH__
  std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0;
  bits += 0x7FFFu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(bits >> 16);
#else
  return to_bfloat16(value).bits;
#endif
}

/// A number as another type: floats to integers as in `truncated`.
template <typename T, typename From>
SHARDLAB_HD inline T number_as(From value) {
  if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>)
    return truncated<T>(value);
  else
    return static_cast<T>(value);
}

/// Element `at` of `data`, as T.
template <typename T>
SHARDLAB_HD inline T load(const void* data, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return static_cast<T>(static_cast<const std::uint8_t*>(data)[at]);
    case DType::kI8:
      return static_cast<T>(static_cast<const std::int8_t*>(data)[at]);
    case DType::kI16:
      return static_cast<T>(static_cast<const std::int16_t*>(data)[at]);
    case DType::kI32:
      return static_cast<T>(static_cast<const std::int32_t*>(data)[at]);
    case DType::kI64:
      return static_cast<T>(static_cast<const std::int64_t*>(data)[at]);
    case DType::kU64:
      return static_cast<T>(static_cast<const std::uint64_t*>(data)[at]);
    case DType::kF16:
      return number_as<T>(half_to_float(static_cast<const std::uint16_t*>(data)[at]));
    case DType::kBF16:
      return number_as<T>(bfloat16_to_float(static_cast<const std::uint16_t*>(data)[at]));
    case DType::kF32:
      return number_as<T>(static_cast<const float*>(data)[at]);
    case DType::kF64:
      return number_as<T>(static_cast<const double*>(data)[at]);
    default:
      return T(0);
  }
}

/// value, rounded to the dtype; integers wrap, anything but 0 is true.
template <typename T>
SHARDLAB_HD inline void store(void* data, DType dtype, std::int64_t at, T value) {
  switch (dtype) {
    case DType::kBool:
      static_cast<std::uint8_t*>(data)[at] = value != T(0) ? 1 : 0;
      break;
    case DType::kU8:
      static_cast<std::uint8_t*>(data)[at] = number_as<std::uint8_t>(value);
      break;
    case DType::kI8:
      static_cast<std::int8_t*>(data)[at] = number_as<std::int8_t>(value);
      break;
    case DType::kI16:
      static_cast<std::int16_t*>(data)[at] = number_as<std::int16_t>(value);
      break;
    case DType::kI32:
      static_cast<std::int32_t*>(data)[at] = number_as<std::int32_t>(value);
      break;
    case DType::kI64:
      static_cast<std::int64_t*>(data)[at] = number_as<std::int64_t>(value);
      break;
    case DType::kU64:
      static_cast<std::uint64_t*>(data)[at] = number_as<std::uint64_t>(value);
      break;
    case DType::kF16:
      static_cast<std::uint16_t*>(data)[at] = float_to_half(static_cast<float>(value));
      break;
    case DType::kBF16:
      static_cast<std::uint16_t*>(data)[at] = float_to_bfloat16(static_cast<float>(value));
      break;
    case DType::kF32:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      break;
    case DType::kF64:
      static_cast<double*>(data)[at] = static_cast<double>(value);
      break;
    default:
      break;
  }
}

/// To f16, bf16 or, for integers, a narrow integer and back; other dtypes do not change it.
template <typename T>
SHARDLAB_HD inline T rounded_to(DType dtype, T value) {
  if constexpr (std::is_integral_v<T>) {
    switch (dtype) {
      case DType::kU8:
        return static_cast<T>(static_cast<std::uint8_t>(value));
      case DType::kI8:
        return static_cast<T>(static_cast<std::int8_t>(value));
      case DType::kI16:
        return static_cast<T>(static_cast<std::int16_t>(value));
      case DType::kI32:
        return static_cast<T>(static_cast<std::int32_t>(value));
      default:
        return value;
    }
  }
  if (dtype == DType::kF16) return static_cast<T>(half_to_float(float_to_half(float(value))));
  if (dtype == DType::kBF16) {
    return static_cast<T>(bfloat16_to_float(float_to_bfloat16(float(value))));
  }
  return value;
}

/// Offsets of up to N arrays at linear index `i` of a row-major walk.
template <int N>
struct Offsets {
  std::int64_t at[N];
};
template <int N>
SHARDLAB_HD inline Offsets<N> offsets_of(const Shape& shape, const Place* const (&places)[N],
                                         std::int64_t i) {
  Offsets<N> result{};
  if (shape.dims <= 1) {
    for (int k = 0; k < N; ++k) result.at[k] = i * places[k]->stride[0];
    return result;
  }
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int dim = shape.dims - 1; dim >= 0; --dim) {
    const std::int64_t size = shape.size[dim];
    const std::int64_t index = dim == 0 ? i : i % size;
    if (dim > 0) i /= size;
    for (int k = 0; k < N; ++k) result.at[k] += index * places[k]->stride[dim];
  }
  return result;
}

template <typename T>
SHARDLAB_HD inline T number_of(const Place& place) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(place.integer);
  else
    return static_cast<T>(place.real);
}

/// run(T{}) in a compute type; `otherwise` is the failure in a dtype in which no kernel computes.
template <typename Run>
Failure in_compute_type(DType compute, const Run& run, Failure otherwise) {
  switch (compute) {
    case DType::kI64:
      return run(std::int64_t{});
    case DType::kF32:
      return run(float{});
    case DType::kF64:
      return run(double{});
    default:
      return otherwise;
  }
}

/// One thread for each of `count` elements, Body in the call's compute dtype.
template <template <typename> typename Body, typename Platform, typename Call>
Failure run_elements(Platform& platform, const Call& call, std::int64_t count, Failure otherwise) {
  const auto run = [&](auto type) { return platform.for_each(count, Body<decltype(type)>{call}); };
  return in_compute_type(call.compute, run, otherwise);
}

struct SixteenBytes {
  std::uint64_t half[2];
};

/// run(Unit{}) with elements of so many bytes.
template <typename Run>
Failure in_units(std::int64_t bytes, const Run& run) {
  switch (bytes) {
    case 1:
      return run(std::uint8_t{});
    case 2:
      return run(std::uint16_t{});
    case 4:
      return run(std::uint32_t{});
    case 8:
      return run(std::uint64_t{});
    case 16:
      return run(SixteenBytes{});
    default:
      return "elements of such a size are not moved";
  }
}

}  // namespace shardlab::cuda
