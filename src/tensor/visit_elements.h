// visit_elements.h - the C++ type of the elements of a dtype.
#pragma once

#include <complex>

#include "base/dtype.h"

namespace shardlab {

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

/// Calls visit(T{}) with the type of the elements. False for complex numbers of two halves, which
/// no C++ type has.
template <typename Visit>
bool visit_elements(DType dtype, const Visit& visit) {
  const auto is = [&](auto example) {
    const bool found = dtype_if<decltype(example)>() == dtype;
    if (found) visit(example);
    return found;
  };
  return is(bool{}) || is(std::uint8_t{}) || is(std::int8_t{}) || is(std::int16_t{}) ||
         is(std::int32_t{}) || is(std::int64_t{}) || is(std::uint64_t{}) || is(Half{}) ||
         is(BFloat16{}) || is(Float8E4M3{}) || is(float{}) || is(double{}) ||
         is(std::complex<float>{}) || is(std::complex<double>{});
}

}  // namespace shardlab
