// math_functors.h - elementary functions and activations of one element; shared by all devices.
// Devices may have faster forms for runs of elements; the functions here define the result.
#pragma once

#include <complex>

#include "kernels/special_functors.h"

namespace shardlab::element {

inline constexpr double kSqrtHalf = 0.70710678118654752440;
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
inline constexpr double kTanhCubic = 0.044715;

SHARDLAB_FUNCTION(Acos, T, (T a), std::acos(a))
SHARDLAB_FUNCTION(Asin, T, (T a), std::asin(a))
SHARDLAB_FUNCTION(Asinh, T, (T a), std::asinh(a))
SHARDLAB_FUNCTION(Atan, T, (T a), std::atan(a))
SHARDLAB_FUNCTION(Cos, T, (T a), std::cos(a))
SHARDLAB_FUNCTION(Cosh, T, (T a), std::cosh(a))
SHARDLAB_FUNCTION(Erf, T, (T a), std::erf(a))
SHARDLAB_FUNCTION(Erfc, T, (T a), std::erfc(a))
SHARDLAB_FUNCTION(Exp, T, (T a), std::exp(a))
SHARDLAB_FUNCTION(Log, T, (T a), std::log(a))
SHARDLAB_FUNCTION(Log10, T, (T a), std::log10(a))
SHARDLAB_FUNCTION(Sin, T, (T a), std::sin(a))
SHARDLAB_FUNCTION(Sinh, T, (T a), std::sinh(a))
SHARDLAB_FUNCTION(Sqrt, T, (T a), std::sqrt(a))
SHARDLAB_FUNCTION(Tan, T, (T a), std::tan(a))
SHARDLAB_FUNCTION(Tanh, T, (T a), std::tanh(a))

SHARDLAB_FUNCTION_BY(Real, Exp2, T, (T a), std::exp2(a), std::exp(T(0.693147180559945309417) * a))
/// exp(x + iy) - 1 without cancellation near 0.
template <typename T>
SHARDLAB_HD T complex_expm1(T a) {
  using R = typename T::value_type;
  const R half_sine = std::sin(a.imag() / 2);
  const R real = std::expm1(a.real()) * std::cos(a.imag()) - 2 * half_sine * half_sine;
  return T(real, std::exp(a.real()) * std::sin(a.imag()));
}
SHARDLAB_FUNCTION_BY(Real, Expm1, T, (T a), std::expm1(a), complex_expm1(a))
SHARDLAB_FUNCTION_BY(Real, Log2, T, (T a), std::log2(a),
                     std::log(a) / typename T::value_type(0.693147180559945309417))
/// |1 + a| = 1 + x (2 + x) + y^2 keeps the digits of a small real part.
template <typename T>
SHARDLAB_HD T complex_log1p(T a) {
  using R = typename T::value_type;
  const R x = a.real(), y = a.imag();
  const R angle = std::atan2(y, 1 + x);
  if (std::abs(x) + std::abs(y) < R(0.5)) return T(std::log1p(x * (2 + x) + y * y) / 2, angle);
  return T(std::log(std::abs(T(1) + a)), angle);
}
SHARDLAB_FUNCTION_BY(Real, Log1p, T, (T a), std::log1p(a), complex_log1p(a))
SHARDLAB_FUNCTION(Rsqrt, T, (T a), T(1) / std::sqrt(a))
SHARDLAB_FUNCTION(Sigmoid, T, (T a), T(1) / (T(1) + std::exp(-a)))
SHARDLAB_FUNCTION(Silu, T, (T a), a / (T(1) + std::exp(-a)))

// Activations and their gradients.

SHARDLAB_FUNCTION(Relu, T, (T a), is_nan(a) || a > T(0) ? a : T(0))
SHARDLAB_FUNCTION(Gelu, T, (T a), T(0.5) * a * (T(1) + std::erf(a * T(kSqrtHalf))))
struct GeluTanh {
  template <typename T>
  SHARDLAB_HD static T inner(T a) {
    return T(kSqrtTwoOverPi) * (a + T(kTanhCubic) * a * a * a);
  }
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return T(0.5) * a * (T(1) + std::tanh(inner(a)));
  }
};
struct GeluBackward {
  template <typename T>
  SHARDLAB_HD static T apply(T grad, T a) {
    const T cdf = T(0.5) * (T(1) + std::erf(a * T(kSqrtHalf)));
    const T density = std::exp(a * a * T(-0.5)) * T(kSqrtTwoOverPi / 2);
    return grad * (cdf + a * density);
  }
};
struct GeluTanhBackward {
  template <typename T>
  SHARDLAB_HD static T apply(T grad, T a) {
    const T tanh = std::tanh(GeluTanh::inner(a));
    const T slope = T(kSqrtTwoOverPi) * (T(1) + T(3 * kTanhCubic) * a * a);
    return grad * (T(0.5) * (T(1) + tanh) + T(0.5) * a * (T(1) - tanh * tanh) * slope);
  }
};
struct SiluBackward {
  template <typename T>
  SHARDLAB_HD static T apply(T grad, T a) {
    const T sigmoid = T(1) / (T(1) + std::exp(-a));
    return grad * sigmoid * (T(1) + a * (T(1) - sigmoid));
  }
};
struct TanhBackward {
  template <typename T>
  SHARDLAB_HD static T apply(T grad, T output) {
    if constexpr (Complex<T>)
      return grad * std::conj(T(1) - output * output);
    else
      return grad * (T(1) - output * output);
  }
};
struct SigmoidBackward {
  template <typename T>
  SHARDLAB_HD static T apply(T grad, T output) {
    if constexpr (Complex<T>)
      return grad * std::conj((T(1) - output) * output);
    else
      return grad * (T(1) - output) * output;
  }
};
SHARDLAB_FUNCTION(ThresholdBackward, T, (T grad, T self, T threshold),
                  self <= threshold ? T(0) : grad)
SHARDLAB_FUNCTION(Softplus, T, (T a, T beta, T threshold),
                  beta* a > threshold ? a : std::log1p(std::exp(a * beta)) / beta)
struct SoftplusBackward {
  template <typename T>
  SHARDLAB_HD static T apply(T grad, T a, T beta, T threshold) {
    const T power = std::exp(a * beta);
    return a * beta > threshold ? grad : grad * power / (power + T(1));
  }
};
SHARDLAB_FUNCTION(LeakyRelu, T, (T a, T slope), a > T(0) ? a : a * slope)
SHARDLAB_FUNCTION(LeakyReluBackward, T, (T grad, T a, T slope), a > T(0) ? grad : grad * slope)

}  // namespace shardlab::element
