// special_functions.h - special functions of real numbers, in double: the digits that 32 bits need
// are always there. There is no table of fitted coefficients where a power series, a recurrence or
// a quadrature is enough. Shared by all devices.
#pragma once

#include "kernels/functors.h"

namespace shardlab::special {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kSqrtPi = 1.77245385090551602730;
inline constexpr double kSqrt2 = 1.41421356237309504880;
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The gamma function and its kin.

/// The derivative of lgamma: by recurrence to 10 and above, then by Stirling's series.
SHARDLAB_HD inline double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  double result = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return kNan;
    result = -kPi / std::tan(kPi * (x - std::trunc(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  if (std::isinf(x)) return x;
  const double z = 1 / (x * x);
  const double series =
      z * (1. / 12 - z * (1. / 120 - z * (1. / 252 - z * (1. / 240 - z * (1. / 132)))));
  return result + std::log(x) - 0.5 / x - series;
}

/// Sum over k of (q + k)^-x: some terms, then Euler and Maclaurin's formula for the rest.
SHARDLAB_HD inline double zeta(double x, double q) {
  if (x == 1) return kInf;
  if (x < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    if (x != std::floor(x)) return kNan;
  }
  if (std::isnan(x) || std::isnan(q)) return kNan;
  double sum = 0;
  int terms = 0;
  for (; terms < 10 || q < 10; ++terms, q += 1) {
    const double term = std::pow(q, -x);
    sum += term;
    if (q > 0 && term <= 1e-17 * sum) return sum;
  }
  const double power = std::pow(q, -x);
  sum += power * q / (x - 1) + power / 2;
  // (2k)! / B2k
  const double bernoulli[] = {12.0,
                              -720.0,
                              30240.0,
                              -1209600.0,
                              47900160.0,
                              -1.8924375803183791606e9,
                              7.47242496e10,
                              -2.950130727918164224e12,
                              1.1646782814350067249e14,
                              -4.5979787224074726105e15};
  double rising = x, falling = power / q;
  for (int k = 0; k < 10; ++k) {
    sum += rising * falling / bernoulli[k];
    rising *= (x + 2 * k + 1) * (x + 2 * k + 2);
    falling /= q * q;
  }
  return sum;
}

/// Near poles it is as far off as the product of x and pi is rounded, as in the reference.
template <typename T>
SHARDLAB_HD T trigamma(T x) {
  if (!(x < T(0.5))) return static_cast<T>(zeta(2, x));
  const T pi = T(kPi), sine = std::sin(pi * x);
  return pi * pi / (sine * sine) - static_cast<T>(zeta(2, T(1) - x));
}

/// The n-th derivative of digamma.
template <typename T>
SHARDLAB_HD T polygamma(T n, T x) {
  if (n == 0) return static_cast<T>(digamma(x));
  if (n == 1) return trigamma(x);
  const double sign = std::fmod(n, T(2)) == 0 ? -1 : 1;
  return static_cast<T>(sign * std::exp(std::lgamma(n + 1.0)) * zeta(n + 1.0, x));
}

/// x^a exp(-x) / gamma(a + 1); near x = a the exponent is summed up without cancellation.
SHARDLAB_HD inline double gamma_share(double a, double x) {
  const double off = (x - a) / a;
  if (a < 20 || std::abs(off) > 0.4) return std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  // gamma(a + 1) = sqrt(2 pi a) (a / e)^a exp(stirling)
  const double stirling = 1 / (12 * a) - 1 / (360 * a * a * a) + 1 / (1260 * a * a * a * a * a);
  return std::exp(a * (std::log1p(off) - off) - stirling) / std::sqrt(2 * kPi * a);
}

/// The share of the gamma integral below x (or, `upper`, above): its series for small x, its
/// continued fraction for large x.
SHARDLAB_HD inline double incomplete_gamma(double a, double x, bool upper) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNan;
  const double none = upper ? 1 : 0, all = 1 - none;
  if (a == 0) return x > 0 ? all : kNan;
  if (x == 0) return none;
  if (std::isinf(a)) return std::isinf(x) ? kNan : none;
  if (std::isinf(x)) return all;
  if (x < a + 1) {
    double term = 1, sum = 1;
    for (double k = a + 1; term > 1e-17 * sum; k += 1) sum += term *= x / k;
    const double lower = sum * gamma_share(a, x);
    return upper ? 1 - lower : lower;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d;
  for (int i = 1; i < 100000; ++i) {
    const double numerator = -i * (i - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    const double factor = c * d;
    fraction *= factor;
    if (std::abs(factor - 1) < 1e-16) break;
  }
  const double above = fraction * a * gamma_share(a, x);
  return upper ? above : 1 - above;
}

/// The derivative by a of a number x drawn from the gamma distribution of shape a, its place in the
/// distribution kept: minus the slope of the share below x by a, over the density at x. If the
/// share below is a short series, from that; else from the share above, or below, as an integral of
/// (log t - digamma(a)) t^(a - 1) exp(-t) over the rest of the density at x, by the trapezoidal
/// rule in u where the way from x is exp(pi / 2 sinh u).
SHARDLAB_HD inline double gamma_draw_slope(double a, double x) {
  if (!(a > 0 && x >= 0) || std::isinf(a) || std::isinf(x)) return kNan;
  if (x == 0) return 0;
  if (x <= a + 1 && a < 100) {
    double term = 1, sum = 1, harmonic = 0, slope = 0;
    for (double k = a + 1; term * (1 + harmonic) > 1e-18 * sum; k += 1) {
      term *= x / k;
      harmonic += 1 / k;
      sum += term;
      slope += term * harmonic;
    }
    return x / a * (slope - sum * (std::log(x) - digamma(a + 1)));
  }
  const bool above = x > a + 1;
  const double middle = digamma(a), start = std::log(x);
  double sum = 0;
  for (int i = -64; i <= 64; ++i) {
    const double u = i / 16.0, way = std::exp(kPi / 2 * std::sinh(u));
    // Above t is x + way, below it is x exp(-way).
    const double turn = above ? std::log1p(way / x) : -way;
    const double fall = above ? (a - 1) * turn - way : a * turn - x * std::expm1(turn);
    if (fall < -80) break;
    sum += std::cosh(u) * way * std::exp(fall) * (start + turn - middle);
  }
  return (above ? 1 : -x) * sum * kPi / 2 / 16;
}

// The error function and its kin.

/// exp(x^2) erfc(x)
SHARDLAB_HD inline double erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  const double z = 1 / (2 * x * x);
  return (1 - z * (1 - z * (3 - z * (15 - z * 105)))) / (x * kSqrtPi);
}

/// x with erfc(x) = share, for shares up to 1: Newton's steps with a second-order term.
SHARDLAB_HD inline double erfc_inverse(double share) {
  if (share == 0) return kInf;
  const double t = std::sqrt(-2 * std::log(share / 2));
  double x = (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481))) / kSqrt2;
  for (int step = 0; step < 4; ++step) {
    // (erfc(x) - share) over the slope, both times exp(x^2)
    const double off = (erfcx(x) - share * std::exp(x * x)) * kSqrtPi / 2;
    x += off / (1 + x * off);
  }
  return x;
}

SHARDLAB_HD inline double erfinv(double y) {
  if (!(std::abs(y) <= 1)) return kNan;
  double x = std::copysign(erfc_inverse(1 - std::abs(y)), y);
  if (std::abs(y) < 0.5) {  // the share next to 1 has lost the digits of y
    x = std::abs(x) < 1e-8 ? y * kSqrtPi / 2 : x;
    for (int step = 0; step < 2; ++step) x -= (std::erf(x) - y) * kSqrtPi / 2 * std::exp(x * x);
  }
  return x;
}

/// The quantile of the normal distribution.
SHARDLAB_HD inline double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNan;
  return p <= 0.5 ? -kSqrt2 * erfc_inverse(2 * p) : kSqrt2 * erfc_inverse(2 * (1 - p));
}

/// The logarithm of the normal distribution.
SHARDLAB_HD inline double log_ndtr(double x) {
  const double t = x / kSqrt2;
  if (x < -1) return std::log(erfcx(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

// Bessel functions.

/// I of order 0 or 1, times exp(-|x|): its power series, whose terms have one sign, or its
/// asymptotic series.
SHARDLAB_HD inline double scaled_bessel_i(double order, double x) {
  const double size = std::abs(x);
  const double sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isnan(x)) return kNan;
  if (size <= 30) {
    double term = order == 1 ? size / 2 : 1, sum = term;
    for (int k = 1; term > 1e-18 * sum; ++k) sum += term *= size * size / 4 / k / (k + order);
    return sign * sum * std::exp(-size);
  }
  double term = 1, sum = 1;
  for (int k = 1; k < 20; ++k) {
    const double odd = 2 * k - 1;
    sum += term *= -(4 * order * order - odd * odd) / (8 * k * size);
  }
  return sign * sum / std::sqrt(2 * kPi * size);
}
/// In the number's type, in which exp(|x|) is infinite before I is, as in the reference.
template <typename T>
SHARDLAB_HD T bessel_i(double order, T x) {
  return static_cast<T>(scaled_bessel_i(order, x)) * std::exp(std::abs(x));
}

/// K of any order, times exp(x): the integral over t of exp(-x (cosh t - 1)) cosh(order t), for
/// which the trapezoidal rule gains digits with every finer step.
SHARDLAB_HD inline double scaled_bessel_k(double order, double x) {
  if (x == 0) return kInf;
  if (!(x > 0)) return kNan;
  if (std::isinf(x)) return 0;
  const double step = x > 9 ? 0.6 / std::sqrt(x) : 0.2;
  double sum = 0.5;
  for (double t = step;; t += step) {
    const double half = std::sinh(t / 2);  // cosh t - 1 = 2 sinh^2(t / 2)
    const double term = std::exp(-2 * x * half * half + order * t) * (1 + std::exp(-2 * order * t));
    sum += term / 2;
    if (term < 1e-18 * sum) return sum * step;
  }
}
SHARDLAB_HD inline double bessel_k(double order, double x) {
  return x > 0 ? scaled_bessel_k(order, x) * std::exp(-x) : scaled_bessel_k(order, x);
}

}  // namespace shardlab::special
