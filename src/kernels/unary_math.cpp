// Elementary functions; integers and bool become f32 first.
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

constexpr unsigned kFloatKinds = kRealKind | kComplexKind;

struct Exp2 {
  template <typename T>
  static T apply(T a) {
    if constexpr (Real<T>)
      return std::exp2(a);
    else
      return std::exp(a * T(0.693147180559945309417));
  }
};
struct Expm1 {
  template <typename T>
  static T apply(T a) {
    if constexpr (Real<T>)
      return std::expm1(a);
    else
      return complex_expm1(a);
  }

 private:
  // exp(x + iy) - 1 without cancellation near 0.
  template <typename T>
  static T complex_expm1(T a) {
    using R = typename T::value_type;
    const R half_sine = std::sin(a.imag() / 2);
    const R real = std::expm1(a.real()) * std::cos(a.imag()) - 2 * half_sine * half_sine;
    return T(real, std::exp(a.real()) * std::sin(a.imag()));
  }
};
struct Log2 {
  template <typename T>
  static T apply(T a) {
    if constexpr (Real<T>)
      return std::log2(a);
    else
      return std::log(a) / T(0.693147180559945309417);
  }
};
struct Log10 {
  template <typename T>
  static T apply(T a) {
    return std::log10(a);
  }
};
struct Log1p {
  template <typename T>
  static T apply(T a) {
    if constexpr (Real<T>)
      return std::log1p(a);
    else
      return complex_log1p(a);
  }

 private:
  // |1 + a| = 1 + x (2 + x) + y^2 keeps the digits of a small real part.
  template <typename T>
  static T complex_log1p(T a) {
    using R = typename T::value_type;
    const R x = a.real(), y = a.imag();
    const R angle = std::atan2(y, 1 + x);
    if (std::abs(x) + std::abs(y) < R(0.5)) return T(std::log1p(x * (2 + x) + y * y) / 2, angle);
    return T(std::log(std::abs(T(1) + a)), angle);
  }
};
struct Sqrt {
  template <typename T>
  static T apply(T a) {
    return std::sqrt(a);
  }
};
struct Rsqrt {
  template <typename T>
  static T apply(T a) {
    return T(1) / std::sqrt(a);
  }
};
struct Tan {
  template <typename T>
  static T apply(T a) {
    return std::tan(a);
  }
};
struct Asin {
  template <typename T>
  static T apply(T a) {
    return std::asin(a);
  }
};
struct Acos {
  template <typename T>
  static T apply(T a) {
    return std::acos(a);
  }
};
struct Atan {
  template <typename T>
  static T apply(T a) {
    return std::atan(a);
  }
};
struct Sinh {
  template <typename T>
  static T apply(T a) {
    return std::sinh(a);
  }
};
struct Cosh {
  template <typename T>
  static T apply(T a) {
    return std::cosh(a);
  }
};
struct Erf {
  template <typename T>
  static T apply(T a) {
    return std::erf(a);
  }
};
struct Erfc {
  template <typename T>
  static T apply(T a) {
    return std::erfc(a);
  }
};

}  // namespace

void add_unary_math_kernels(KernelTable& table) {
  table.set(KernelId::kExp, float_kernel<Exp, 1, kFloatKinds>);
  table.set(KernelId::kExp2, float_kernel<Exp2, 1, kFloatKinds>);
  table.set(KernelId::kExpm1, float_kernel<Expm1, 1, kFloatKinds>);
  table.set(KernelId::kLog, float_kernel<Log, 1, kFloatKinds>);
  table.set(KernelId::kLog2, float_kernel<Log2, 1, kFloatKinds>);
  table.set(KernelId::kLog10, float_kernel<Log10, 1, kFloatKinds>);
  table.set(KernelId::kLog1p, float_kernel<Log1p, 1, kFloatKinds>);
  table.set(KernelId::kSqrt, float_kernel<Sqrt, 1, kFloatKinds>);
  table.set(KernelId::kRsqrt, float_kernel<Rsqrt, 1, kFloatKinds>);
  table.set(KernelId::kSin, float_kernel<Sin, 1, kFloatKinds>);
  table.set(KernelId::kCos, float_kernel<Cos, 1, kFloatKinds>);
  table.set(KernelId::kTan, float_kernel<Tan, 1, kFloatKinds>);
  table.set(KernelId::kAsin, float_kernel<Asin, 1, kFloatKinds>);
  table.set(KernelId::kAcos, float_kernel<Acos, 1, kFloatKinds>);
  table.set(KernelId::kAtan, float_kernel<Atan, 1, kFloatKinds>);
  table.set(KernelId::kSinh, float_kernel<Sinh, 1, kFloatKinds>);
  table.set(KernelId::kCosh, float_kernel<Cosh, 1, kFloatKinds>);
  table.set(KernelId::kTanh, float_kernel<Tanh, 1, kFloatKinds>);
  table.set(KernelId::kErf, float_kernel<Erf, 1, kRealKind>);
  table.set(KernelId::kErfc, float_kernel<Erfc, 1, kRealKind>);
  table.set(KernelId::kSigmoid, float_kernel<Sigmoid, 1, kFloatKinds>);
}

}  // namespace shardlab
