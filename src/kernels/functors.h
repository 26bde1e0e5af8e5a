// functors.h - the functions of pointwise ops for one element; shared by all devices. T is
// std::int64_t, float, double or, where it makes sense, std::complex of them. Integers wrap.
#pragma once

#include <cmath>
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

/// A function that is one expression, for every type that it takes.
#define SHARDLAB_FUNCTION(Name, Result, parameters, expression) \
  struct Name {                                                 \
    template <typename T>                                       \
    SHARDLAB_HD static Result apply parameters {                \
      return expression;                                        \
    }                                                           \
  };

/// One expression for types of a kind, another for the rest.
#define SHARDLAB_FUNCTION_BY(Kind, Name, Result, parameters, of_kind, of_others) \
  struct Name {                                                                  \
    template <typename T>                                                        \
    SHARDLAB_HD static Result apply parameters {                                 \
      if constexpr (Kind<T>)                                                     \
        return of_kind;                                                          \
      else                                                                       \
        return of_others;                                                        \
    }                                                                            \
  };

// Two tensors.

SHARDLAB_FUNCTION(Add, T, (T a, T b), sum_of(a, b))
SHARDLAB_FUNCTION(AddScaled, T, (T a, T b, T alpha), sum_of(a, product_of(alpha, b)))
SHARDLAB_FUNCTION(Sub, T, (T a, T b), difference_of(a, b))
SHARDLAB_FUNCTION(SubScaled, T, (T a, T b, T alpha), difference_of(a, product_of(alpha, b)))
SHARDLAB_FUNCTION(RsubScaled, T, (T a, T b, T alpha), difference_of(b, product_of(alpha, a)))
SHARDLAB_FUNCTION(Mul, T, (T a, T b), product_of(a, b))
SHARDLAB_FUNCTION(Div, T, (T a, T b), a / b)

// Division by zero of integers is refused before the loop.
SHARDLAB_FUNCTION_BY(Integer, DivTrunc, T, (T a, T b), b == -1 ? difference_of<T>(0, a) : a / b,
                     std::trunc(a / b))

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

// Python's //, from the remainder, so that a == b * (a // b) + a % b holds as well as it can.
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

SHARDLAB_FUNCTION_BY(Integer, Fmod, T, (T a, T b), b == -1 ? 0 : a % b, std::fmod(a, b))

SHARDLAB_HD inline std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  std::uint64_t result = 1, factor = bits_of(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return wrapped(result);
}
SHARDLAB_FUNCTION_BY(Integer, Pow, T, (T a, T b), integer_power(a, b), std::pow(a, b))

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
SHARDLAB_FUNCTION(Atan2, T, (T a, T b), std::atan2(a, b))

SHARDLAB_FUNCTION(Eq, bool, (T a, T b), a == b)
SHARDLAB_FUNCTION(Ne, bool, (T a, T b), a != b)
SHARDLAB_FUNCTION(Lt, bool, (T a, T b), a < b)
SHARDLAB_FUNCTION(Le, bool, (T a, T b), a <= b)
SHARDLAB_FUNCTION(Gt, bool, (T a, T b), a > b)
SHARDLAB_FUNCTION(Ge, bool, (T a, T b), a >= b)
SHARDLAB_FUNCTION(LogicalAnd, bool, (T a, T b), truth(a) && truth(b))
SHARDLAB_FUNCTION(LogicalOr, bool, (T a, T b), truth(a) || truth(b))
SHARDLAB_FUNCTION(LogicalXor, bool, (T a, T b), truth(a) != truth(b))
SHARDLAB_FUNCTION(BitwiseAnd, T, (T a, T b), wrapped(bits_of(a) & bits_of(b)))
SHARDLAB_FUNCTION(BitwiseOr, T, (T a, T b), a | b)
SHARDLAB_FUNCTION(BitwiseXor, T, (T a, T b), a ^ b)

// A negative number of bits, or more than there are, shifts all of them out.
SHARDLAB_FUNCTION(LeftShift, T, (T a, T b), b < 0 || b >= 64 ? T(0) : wrapped(bits_of(a) << b))
SHARDLAB_FUNCTION(RightShift, T, (T a, T b), a >> (b < 0 || b >= 64 ? 63 : b))

// Three tensors.

// A NaN bound makes NaN; the upper bound wins over the lower one.
SHARDLAB_FUNCTION(Clamp, T, (T value, T low, T high),
                  Minimum::apply(Maximum::apply(value, low), high))
SHARDLAB_FUNCTION(Where, T, (bool condition, T yes, T no), condition ? yes : no)
struct Lerp {
  template <typename T>
  SHARDLAB_HD static T apply(T start, T end, T weight) {
    const bool near_start = std::abs(weight) < 0.5;
    return near_start ? start + product_of(weight, end - start)
                      : end - product_of(end - start, T(1) - weight);
  }
};
SHARDLAB_FUNCTION(Addcmul, T, (T self, T a, T b, T value),
                  sum_of(self, product_of(product_of(value, a), b)))
SHARDLAB_FUNCTION(Addcdiv, T, (T self, T a, T b, T value), self + product_of(value, a) / b)

// One tensor.

SHARDLAB_FUNCTION(Positive, T, (T a), a)
SHARDLAB_FUNCTION_BY(Integer, Neg, T, (T a), difference_of<T>(0, a), -a)
SHARDLAB_FUNCTION_BY(Integer, Abs, auto, (T a), a < 0 ? difference_of<T>(0, a) : a, std::abs(a))
SHARDLAB_FUNCTION(Sign, T, (T a), T(int(a > 0) - int(a < 0)))
SHARDLAB_FUNCTION_BY(Complex, Sgn, T, (T a), a == T(0) ? T(0) : a / std::abs(a), Sign::apply(a))
SHARDLAB_FUNCTION(Square, T, (T a), product_of(a, a))
SHARDLAB_FUNCTION(Reciprocal, T, (T a), T(1) / a)
SHARDLAB_FUNCTION_BY(Integer, Floor, T, (T a), a, std::floor(a))
SHARDLAB_FUNCTION_BY(Integer, Ceil, T, (T a), a, std::ceil(a))
// Halves are rounded to the even neighbour.
SHARDLAB_FUNCTION_BY(Integer, Round, T, (T a), a, std::nearbyint(a))
SHARDLAB_FUNCTION_BY(Integer, Trunc, T, (T a), a, std::trunc(a))
SHARDLAB_FUNCTION(Frac, T, (T a), a - std::trunc(a))
SHARDLAB_FUNCTION(IsNan, bool, (T a), is_nan(a))
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
SHARDLAB_FUNCTION_BY(Integer, Signbit, bool, (T a), a < 0, std::signbit(a))
SHARDLAB_FUNCTION(LogicalNot, bool, (T a), !truth(a))
SHARDLAB_FUNCTION(BitwiseNot, T, (T a), ~a)

}  // namespace element

}  // namespace shardlab
