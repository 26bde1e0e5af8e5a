// functors.h - the functions of pointwise ops for one element; shared by all devices. T is
// std::int64_t, float, double or, where it makes sense, std::complex of them. Integers wrap.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

// A device compiler defines this before it includes the file.
#ifndef SHARDLAB_HD
#define SHARDLAB_HD
#endif

namespace shardlab {

/// The three kinds of compute types.
template <typename T>
concept Integer = std::is_integral_v<T>;
template <typename T>
concept Real = std::is_floating_point_v<T>;
template <typename T>
concept Complex = !Integer<T> && !Real<T>;

/// Integer arithmetic without overflow.
SHARDLAB_HD inline std::uint64_t bits_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}
SHARDLAB_HD inline std::int64_t wrapped(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits);
}

/// a + b; integers wrap.
template <typename T>
SHARDLAB_HD inline T sum_of(T a, T b) {
  if constexpr (Integer<T>)
    return wrapped(bits_of(a) + bits_of(b));
  else
    return a + b;
}
template <typename T>
SHARDLAB_HD inline T difference_of(T a, T b) {
  if constexpr (Integer<T>)
    return wrapped(bits_of(a) - bits_of(b));
  else
    return a - b;
}
/// Parts of complex numbers are multiplied as written, as in the reference: C++ would make
/// infinities of some that are NaN. A difference of two products side by side with a sum of two
/// would be fused by g++ 12 in vectors, in spite of -ffp-contract=off, and so be others than in the
/// rest of a loop.
template <typename T>
SHARDLAB_HD inline T product_of(T a, T b) {
  if constexpr (Integer<T>)
    return wrapped(bits_of(a) * bits_of(b));
  else if constexpr (requires { a.imag(); })
    return {a.real() * b.real() + -a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else
    return a * b;
}
/// A float as an integer, truncated. A number out of range, and NaN, gives the same as on
/// processors: the least number of i64 for 64 bits, else that of i32, of which narrower types keep
/// the low bits; u8 keeps those of an i64.
template <typename To, typename From>
SHARDLAB_HD inline To truncated(From value) {
  static_assert(Integer<To> && Real<From>);
  if constexpr (sizeof(To) < 8 && std::is_signed_v<To>) {
    const bool fits = value >= From(-0x1p31) && value < From(0x1p31);
    return static_cast<To>(fits ? static_cast<std::int32_t>(value)
                                : std::numeric_limits<std::int32_t>::min());
  } else {
    const bool fits = value >= From(-0x1p63) && value < From(0x1p63);
    return static_cast<To>(fits ? static_cast<std::int64_t>(value)
                                : std::numeric_limits<std::int64_t>::min());
  }
}
template <typename T>
SHARDLAB_HD inline bool is_nan(T value) {
  if constexpr (Integer<T>)
    return false;
  else
    return value != value;
}
template <typename T>
SHARDLAB_HD inline bool truth(T value) {
  return value != T(0);
}

namespace element {

// Two tensors.

struct Add {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return sum_of(a, b);
  }
};
struct AddScaled {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b, T alpha) {
    return sum_of(a, product_of(alpha, b));
  }
};
struct Sub {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return difference_of(a, b);
  }
};
struct SubScaled {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b, T alpha) {
    return difference_of(a, product_of(alpha, b));
  }
};
struct RsubScaled {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b, T alpha) {
    return difference_of(b, product_of(alpha, a));
  }
};
struct Mul {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return product_of(a, b);
  }
};
struct Div {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return a / b;
  }
};

// Division by zero of integers is refused before the loop.
struct DivTrunc {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    if constexpr (Integer<T>)
      return b == -1 ? difference_of<T>(0, a) : a / b;
    else
      return std::trunc(a / b);
  }
};

// Python's floored remainder: the sign of the divisor.
struct Remainder {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    if constexpr (Integer<T>) {
      if (b == -1) return 0;
      const T rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      const T rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
  }
};

// As Python's //: from the remainder, so that a == b * (a // b) + a % b holds as well as it can.
struct DivFloor {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    if constexpr (Integer<T>) {
      if (b == -1) return difference_of<T>(0, a);
      return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
    } else {
      if (b == 0) return a / b;
      const T rest = std::fmod(a, b);
      T quotient = (a - rest) / b;
      if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
      if (quotient == 0) return std::copysign(T(0), a / b);
      const T floored = std::floor(quotient);
      return quotient - floored > T(0.5) ? floored + 1 : floored;
    }
  }
};

struct Fmod {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    if constexpr (Integer<T>)
      return b == -1 ? 0 : a % b;
    else
      return std::fmod(a, b);
  }
};

struct Pow {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    if constexpr (Integer<T>)
      return integer_power(a, b);
    else
      return std::pow(a, b);
  }

 private:
  SHARDLAB_HD static std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    std::uint64_t result = 1, factor = bits_of(base);
    for (; exponent > 0; exponent >>= 1, factor *= factor) {
      if (exponent & 1) result *= factor;
    }
    return wrapped(result);
  }
};

// NaN wins over every number.
struct Maximum {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    const T chosen = a > b ? a : b;
    return is_nan(a) ? a : chosen;
  }
};
struct Minimum {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    const T chosen = a < b ? a : b;
    return is_nan(a) ? a : chosen;
  }
};
struct Atan2 {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return std::atan2(a, b);
  }
};

struct Eq {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return a >= b;
  }
};
struct LogicalAnd {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return truth(a) && truth(b);
  }
};
struct LogicalOr {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return truth(a) || truth(b);
  }
};
struct LogicalXor {
  template <typename T>
  SHARDLAB_HD static bool apply(T a, T b) {
    return truth(a) != truth(b);
  }
};
struct BitwiseAnd {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return a & b;
  }
};
struct BitwiseOr {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return a | b;
  }
};
struct BitwiseXor {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return a ^ b;
  }
};

// By a negative number of bits, or by more than there are: all are shifted out.
struct LeftShift {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return b < 0 || b >= 64 ? T(0) : wrapped(bits_of(a) << b);
  }
};
struct RightShift {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    return a >> (b < 0 || b >= 64 ? 63 : b);
  }
};

// Three tensors.

// A NaN bound makes NaN; the upper bound wins over the lower one.
struct Clamp {
  template <typename T>
  SHARDLAB_HD static T apply(T value, T low, T high) {
    return Minimum::apply(Maximum::apply(value, low), high);
  }
};
struct Where {
  template <typename T>
  SHARDLAB_HD static T apply(bool condition, T yes, T no) {
    return condition ? yes : no;
  }
};
struct Lerp {
  template <typename T>
  SHARDLAB_HD static T apply(T start, T end, T weight) {
    const bool near_start = std::abs(weight) < 0.5;
    return near_start ? start + product_of(weight, end - start)
                      : end - product_of(end - start, T(1) - weight);
  }
};
struct Addcmul {
  template <typename T>
  SHARDLAB_HD static T apply(T self, T a, T b, T value) {
    return sum_of(self, product_of(product_of(value, a), b));
  }
};
struct Addcdiv {
  template <typename T>
  SHARDLAB_HD static T apply(T self, T a, T b, T value) {
    return self + product_of(value, a) / b;
  }
};

// One tensor.

struct Positive {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return a;
  }
};
struct Neg {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    if constexpr (Integer<T>)
      return difference_of<T>(0, a);
    else
      return -a;
  }
};
struct Abs {
  template <typename T>
  SHARDLAB_HD static auto apply(T a) {
    if constexpr (Integer<T>)
      return a < 0 ? difference_of<T>(0, a) : a;
    else
      return std::abs(a);
  }
};
struct Sign {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return T(int(a > 0) - int(a < 0));
  }
};
struct Sgn {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    if constexpr (Complex<T>)
      return a == T(0) ? T(0) : a / std::abs(a);
    else
      return Sign::apply(a);
  }
};
struct Square {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return product_of(a, a);
  }
};
struct Reciprocal {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return T(1) / a;
  }
};
struct Floor {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    if constexpr (Integer<T>)
      return a;
    else
      return std::floor(a);
  }
};
struct Ceil {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    if constexpr (Integer<T>)
      return a;
    else
      return std::ceil(a);
  }
};
// Halves are rounded to the even neighbour.
struct Round {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    if constexpr (Integer<T>)
      return a;
    else
      return std::nearbyint(a);
  }
};
struct Trunc {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    if constexpr (Integer<T>)
      return a;
    else
      return std::trunc(a);
  }
};
struct Frac {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return a - std::trunc(a);
  }
};
struct IsNan {
  template <typename T>
  SHARDLAB_HD static bool apply(T a) {
    return is_nan(a);
  }
};
struct IsInf {
  template <typename T>
  SHARDLAB_HD static bool apply(T a) {
    if constexpr (Integer<T>)
      return false;
    else if constexpr (Real<T>)
      return std::isinf(a);
    else
      return std::isinf(a.real()) || std::isinf(a.imag());
  }
};
struct IsFinite {
  template <typename T>
  SHARDLAB_HD static bool apply(T a) {
    if constexpr (Integer<T>)
      return true;
    else if constexpr (Real<T>)
      return std::isfinite(a);
    else
      return std::isfinite(a.real()) && std::isfinite(a.imag());
  }
};
struct Signbit {
  template <typename T>
  SHARDLAB_HD static bool apply(T a) {
    if constexpr (Integer<T>)
      return a < 0;
    else
      return std::signbit(a);
  }
};
struct LogicalNot {
  template <typename T>
  SHARDLAB_HD static bool apply(T a) {
    return !truth(a);
  }
};
struct BitwiseNot {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return ~a;
  }
};

}  // namespace element

}  // namespace shardlab
