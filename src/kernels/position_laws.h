// position_laws.h - values that follow from a place, or from the random words of one: sequences of
// numbers, and random laws. For the CPU and for GPUs.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/dtype.h"
#include "kernels/functors.h"
#include "kernels/philox.h"

namespace shardlab {

/// A standard normal number.
SHARDLAB_HD inline double normal_double(const PhiloxWords& words) {
  const auto [radius, turn] = normal_source_double(words);
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * turn);
}

/// A sequence or a law with its numbers. A law that has an inverse distribution function is that
/// function of the f64 uniform number u, of which 1 - u is never 0.
struct DrawLaw {
  enum class Kind : std::uint8_t {
    // For i64.
    kInteger,    ///< low + word % range
    kBernoulli,  ///< u < a, or the element's own number
    kCount,      ///< low + i range
    kEye,        ///< 1 on the diagonal of `range` columns
    // For f64, or f32 for narrower outputs.
    kUniform,  ///< a + (b - a) u
    kNormal,   ///< a + b n
    // For f64.
    kArange,        ///< a + i b
    kEvenSteps,     ///< from a to b in `range` steps; symmetric, so that both ends are exact
    kPowerSteps,    ///< powers of `base`, whose exponents are these
    kRaisedCosine,  ///< of `low` places, which begins again after `range`
    kExponential,   ///< of rate a
    kGeometric,     ///< trials until one succeeds; a: the logarithm of a trial's chance to fail
    kCauchy,        ///< of median a and sigma b
    kLogNormal,     ///< the exponential of a normal number, of mean a and deviation b
  };
  Kind kind = Kind::kUniform;
  double a = 0;
  double b = 1;
  double base = 1;
  std::int64_t low = 0;
  std::uint64_t range = 1;

  /// The dtype in which elements of an output are made.
  SHARDLAB_HD DType made_in(DType out) const {
    if (kind <= Kind::kEye) return DType::kI64;
    return out != DType::kF64 && kind <= Kind::kNormal ? DType::kF32 : DType::kF64;
  }
};

SHARDLAB_HD inline double even_step(const DrawLaw& law, std::int64_t i) {
  const std::int64_t steps = wrapped(law.range);
  const double step = steps > 1 ? (law.b - law.a) / static_cast<double>(steps - 1) : 0;
  return i < (steps + 1) / 2 ? law.a + static_cast<double>(i) * step
                             : law.b - static_cast<double>(steps - 1 - i) * step;
}

/// The element at place i of a law other than the normal one, as T = made_in(dtype). `chance` is
/// the element's own number, or law.a.
template <typename T>
SHARDLAB_HD inline T drawn(const DrawLaw& law, std::int64_t i, const PhiloxWords& words,
                           DType dtype, double chance) {
  using Kind = DrawLaw::Kind;
  const double u = uniform_double(words);
  if constexpr (Integer<T>) {
    const std::int64_t range = wrapped(law.range);
    if (law.kind == Kind::kInteger)
      return sum_of(law.low, wrapped(word_pair(words, 0) % law.range));
    if (law.kind == Kind::kBernoulli) return u < chance ? 1 : 0;
    if (law.kind == Kind::kEye) return i / range == i % range ? 1 : 0;
    return sum_of(law.low, product_of(i, range));
  } else if constexpr (sizeof(T) == sizeof(float)) {
    const int digits = dtype == DType::kF16 ? 11 : dtype == DType::kBF16 ? 8 : 24;
    return static_cast<T>(law.a) + static_cast<T>(law.b - law.a) * uniform_float(words, digits);
  } else {
    switch (law.kind) {
      case Kind::kUniform:
        return law.a + (law.b - law.a) * u;
      case Kind::kEvenSteps:
        return even_step(law, i);
      case Kind::kPowerSteps:
        return std::pow(law.base, even_step(law, i));
      case Kind::kRaisedCosine: {
        if (law.low == 1) return 1.0;
        const double turn = static_cast<double>(i) / static_cast<double>(wrapped(law.range));
        return 0.5 - 0.5 * std::cos(2 * std::numbers::pi * turn);
      }
      case Kind::kExponential:
        return -std::log1p(-u) / law.a;
      case Kind::kGeometric: {
        const double trials = std::ceil(std::log1p(-u) / law.a);
        return trials > 1 ? trials : 1;
      }
      case Kind::kCauchy:
        return law.a + law.b * std::tan(std::numbers::pi * (u - 0.5));
      case Kind::kLogNormal:
        return std::exp(law.a + law.b * normal_double(words));
      default:
        return law.a + static_cast<double>(i) * law.b;
    }
  }
}

}  // namespace shardlab
