// special_functors.h - special functions and orthogonal polynomials of one element; shared by all
// devices.
#pragma once

#include "kernels/bessel_functions.h"
#include "kernels/special_functions.h"

namespace shardlab::element {

/// A function of one number that is computed in double.
#define SHARDLAB_SPECIAL(Name, value)      \
  struct Name {                            \
    template <typename T>                  \
    SHARDLAB_HD static T apply(T number) { \
      const double x = number;             \
      return static_cast<T>(value);        \
    }                                      \
  };

SHARDLAB_SPECIAL(Digamma, special::digamma(x))
SHARDLAB_SPECIAL(Erfcx, special::erfcx(x))
SHARDLAB_SPECIAL(Erfinv, special::erfinv(x))
SHARDLAB_SPECIAL(I0e, special::scaled_bessel_i(0, x))
SHARDLAB_SPECIAL(I1e, special::scaled_bessel_i(1, x))
SHARDLAB_SPECIAL(K0, special::bessel_k(0, x))
SHARDLAB_SPECIAL(K1, special::bessel_k(1, x))
SHARDLAB_SPECIAL(Lgamma, std::lgamma(x))
SHARDLAB_SPECIAL(LogNdtr, special::log_ndtr(x))
SHARDLAB_SPECIAL(Ndtri, special::ndtri(x))
SHARDLAB_SPECIAL(ScaledK0, special::scaled_bessel_k(0, x))
SHARDLAB_SPECIAL(ScaledK1, special::scaled_bessel_k(1, x))
#undef SHARDLAB_SPECIAL

SHARDLAB_FUNCTION(AiryAi, T, (T x), special::airy_ai(x))
SHARDLAB_FUNCTION(BesselJ0, T, (T x), special::bessel_j0(x))
SHARDLAB_FUNCTION(BesselJ1, T, (T x), special::bessel_j1(x))
SHARDLAB_FUNCTION(BesselY0, T, (T x), special::bessel_y0(x))
SHARDLAB_FUNCTION(BesselY1, T, (T x), special::bessel_y1(x))
SHARDLAB_FUNCTION(I0, T, (T x), special::bessel_i(0, x))
SHARDLAB_FUNCTION(I1, T, (T x), special::bessel_i(1, x))
SHARDLAB_FUNCTION(SphericalBesselJ0, T, (T x), special::spherical_bessel_j0(x))

SHARDLAB_FUNCTION(Igamma, T, (T a, T x), static_cast<T>(special::incomplete_gamma(a, x, false)))
SHARDLAB_FUNCTION(Igammac, T, (T a, T x), static_cast<T>(special::incomplete_gamma(a, x, true)))
SHARDLAB_FUNCTION(StandardGammaGrad, T, (T a, T x), static_cast<T>(special::gamma_draw_slope(a, x)))
SHARDLAB_FUNCTION(Polygamma, T, (T order, T x), special::polygamma(order, x))
SHARDLAB_FUNCTION(Zeta, T, (T x, T q), static_cast<T>(special::zeta(x, q)))

// 0 where x is 0, whatever the logarithm is; but NaN stays.
SHARDLAB_FUNCTION(Xlog1py, T, (T x, T y), x == T(0) && !is_nan(y) ? T(0) : x * std::log1p(y))
SHARDLAB_FUNCTION(Acosh, T, (T a), std::acosh(a))
SHARDLAB_FUNCTION(Nextafter, T, (T from, T to), std::nextafter(from, to))
// Rounds to floats that have fewer digits than T, the least of which is 2^least; beyond `most` is
// infinity.
template <typename T>
SHARDLAB_HD T next_of_fewer_digits(T from, T to, int digits, int least, T most) {
  if (is_nan(from) || is_nan(to)) return from + to;
  if (from == to) return to;
  if (from == 0) return std::copysign(std::ldexp(T(1), least), to);
  if (std::isinf(from)) return std::copysign(most, from);
  // One unit of the digits; below a power of two, and below the normal numbers, another.
  int exponent = 0;
  const bool shrinks = (to < from) == (from > 0);
  const T mantissa = std::frexp(from, &exponent);
  if (shrinks && std::abs(mantissa) == T(0.5)) --exponent;
  const int place = exponent - digits;
  const T unit = std::ldexp(T(1), place < least ? least : place);
  return to > from ? from + unit : from - unit;
}
SHARDLAB_FUNCTION(NextafterBF16, T, (T from, T to),
                  next_of_fewer_digits(from, to, 8, -133, T(0x1.fep127)))
SHARDLAB_FUNCTION(NextafterF16, T, (T from, T to),
                  next_of_fewer_digits(from, to, 11, -24, T(65504)))
// x = mantissa * 2^exponent, the mantissa's size in [0.5, 1).
struct FrexpMantissa {
  template <typename T>
  SHARDLAB_HD static T apply(T x) {
    int exponent = 0;
    return std::frexp(x, &exponent);
  }
};
struct FrexpExponent {
  template <typename T>
  SHARDLAB_HD static T apply(T x) {
    int exponent = 0;
    (void)std::frexp(x, &exponent);
    return std::isfinite(x) ? T(exponent) : T(0);
  }
};

// The divisor of both magnitudes; the least integer has none.
struct Gcd {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    std::uint64_t x = size_of(a), y = size_of(b);
    while (y != 0) {
      const std::uint64_t rest = x % y;
      x = y;
      y = rest;
    }
    return wrapped(x);
  }

 private:
  SHARDLAB_HD static std::uint64_t size_of(std::int64_t a) {
    return a < 0 ? 0 - bits_of(a) : bits_of(a);
  }
};
struct Lcm {
  template <typename T>
  SHARDLAB_HD static T apply(T a, T b) {
    const T common = Gcd::apply(a, b);
    if (common == 0) return 0;
    const T multiple = product_of<T>(a / common, b);
    return multiple < 0 ? difference_of<T>(0, multiple) : multiple;
  }
};

// Orthogonal polynomials of degree n, an integer at or above 0; below they are 0, and where no i64
// holds n. Three terms follow one another; where a closed form holds and the recurrence is long,
// the closed form is taken.

/// -1 where there is none.
template <typename T>
SHARDLAB_HD std::int64_t degree_of(T degree) {
  const T n = std::trunc(degree);
  return n >= 0 && n < T(9223372036854775808.0) ? static_cast<std::int64_t>(n) : -1;
}

enum class Chebyshev { kT, kU, kV, kW };

template <Chebyshev kind>
struct ChebyshevPolynomial {
  template <typename T>
  SHARDLAB_HD static T apply(T x, T degree) {
    const std::int64_t terms = degree_of(degree);
    if (terms < 0) return T(0);
    const T n = static_cast<T>(terms);
    if (std::abs(x) == T(1)) return at_end(x, n);
    if (n > (kind == Chebyshev::kT ? 6 : 8) && std::abs(x) < T(1)) return of_angle(std::acos(x), n);
    T before = 1, last = first(x);
    if (n == 0) return before;
    for (std::int64_t k = 2; k <= terms && !is_nan(last); ++k) {
      const T next = (x + x) * last - before;
      before = last;
      last = next;
    }
    return last;
  }

 private:
  template <typename T>
  SHARDLAB_HD static T first(T x) {
    if constexpr (kind == Chebyshev::kT) return x;
    if constexpr (kind == Chebyshev::kU) return x + x;
    if constexpr (kind == Chebyshev::kV) return x + x - T(1);
    return x + x + T(1);
  }
  template <typename T>
  SHARDLAB_HD static T at_end(T x, T n) {
    const T sign = x > 0 || std::fmod(n, T(2)) == 0 ? 1 : -1;
    if constexpr (kind == Chebyshev::kT) return sign;
    if constexpr (kind == Chebyshev::kU) return sign * (n + 1);
    const bool grows = (kind == Chebyshev::kW) == (x > 0);
    return grows ? sign * (n + n + 1) : sign;
  }
  template <typename T>
  SHARDLAB_HD static T of_angle(T angle, T n) {
    if constexpr (kind == Chebyshev::kT) return std::cos(n * angle);
    if constexpr (kind == Chebyshev::kU) return std::sin((n + 1) * angle) / std::sin(angle);
    const T turned = (n + T(0.5)) * angle;
    if constexpr (kind == Chebyshev::kV) return std::cos(turned) / std::cos(angle / 2);
    return std::sin(turned) / std::sin(angle / 2);
  }
};
using ChebyshevT = ChebyshevPolynomial<Chebyshev::kT>;
using ChebyshevU = ChebyshevPolynomial<Chebyshev::kU>;
using ChebyshevV = ChebyshevPolynomial<Chebyshev::kV>;
using ChebyshevW = ChebyshevPolynomial<Chebyshev::kW>;

// On [0, 1].
template <typename Polynomial>
SHARDLAB_FUNCTION(Shifted, T, (T x, T degree), Polynomial::apply(x + x - T(1), degree))
using ShiftedChebyshevT = Shifted<ChebyshevT>;
using ShiftedChebyshevU = Shifted<ChebyshevU>;
using ShiftedChebyshevV = Shifted<ChebyshevV>;
using ShiftedChebyshevW = Shifted<ChebyshevW>;

/// p(k + 1) = next of x, k, p(k) = `last` and p(k - 1) = `before`, from p(0) = 1 on. Counted in
/// integers: 2^24 + 1 is 2^24 in f32.
#define SHARDLAB_ORTHOGONAL(Name, one, next)                  \
  struct Name {                                               \
    template <typename T>                                     \
    SHARDLAB_HD static T apply(T x, T degree) {               \
      const std::int64_t n = degree_of(degree);               \
      if (n < 0) return T(0);                                 \
      T before = 1, last = one;                               \
      if (n == 0) return before;                              \
      for (std::int64_t i = 1; i < n && !is_nan(last); ++i) { \
        const T k = static_cast<T>(i), following = next;      \
        before = last;                                        \
        last = following;                                     \
      }                                                       \
      return last;                                            \
    }                                                         \
  };
SHARDLAB_ORTHOGONAL(HermiteH, x + x, (x + x) * last - 2 * k * before)
SHARDLAB_ORTHOGONAL(HermiteHe, x, x* last - k * before)
SHARDLAB_ORTHOGONAL(LaguerreL, T(1) - x, ((k + k + (T(1) - x)) * last - k * before) / (k + 1))
SHARDLAB_ORTHOGONAL(LegendreP, x, ((k + k + 1) * x * last - k * before) / (k + 1))
#undef SHARDLAB_ORTHOGONAL

}  // namespace shardlab::element
