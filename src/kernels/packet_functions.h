// packet_functions.h - exp, log, tanh, sine and the like of each number in a packet, Eigen's name
// for a vector register. A lane's result depends on that lane alone, and is right to a few last
// digits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/eigen_core.h"
#include "kernels/math_functors.h"

namespace shardlab {

// All is always inlined: as calls, these functions take twice as long.
template <typename T>
using PacketOf = typename Eigen::internal::packet_traits<T>::type;

/// The bits of a number, and of those in a packet.
template <typename T>
using WordOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <typename T>
struct PacketBits {
  typedef WordOf<T> type __attribute__((vector_size(sizeof(PacketOf<T>))));
};
template <typename T>
using BitsOf = typename PacketBits<T>::type;

/// In each lane yes where x < y, else no.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> where_less(const PacketOf<T>& x, const PacketOf<T>& y,
                                           const PacketOf<T>& yes, const PacketOf<T>& no) {
  return x < y ? yes : no;
}
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> where_equal(const PacketOf<T>& x, const PacketOf<T>& y,
                                            const PacketOf<T>& yes, const PacketOf<T>& no) {
  return x == y ? yes : no;
}

/// The root of each lane, rounded once; Eigen's is a digit off where it is by an approximation.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_sqrt(const PacketOf<T>& x) {
#ifdef __AVX__
  if constexpr (sizeof(T) == sizeof(float)) {
    return _mm256_sqrt_ps(x);
  } else {
    return _mm256_sqrt_pd(x);
  }
#else
  T lanes[Eigen::internal::packet_traits<T>::size];
  std::memcpy(lanes, &x, sizeof(lanes));
  for (T& lane : lanes) lane = std::sqrt(lane);
  return Eigen::internal::ploadu<PacketOf<T>>(lanes);
#endif
}

/// to[i] = value(i) in these lanes, a bit for each.
template <typename T, typename Value>
void replace_lanes(PacketOf<T>& to, std::uint32_t lanes, const Value& value) {
  constexpr std::size_t kWidth = Eigen::internal::packet_traits<T>::size;
  T values[kWidth];
  std::memcpy(values, &to, sizeof(values));
  for (std::size_t i = 0; i < kWidth; ++i) {
    if ((lanes >> i & 1) != 0) values[i] = value(i);
  }
  std::memcpy(&to, values, sizeof(values));
}
/// The same with F of x[i] and y[i].
template <typename F, typename T>
[[gnu::noinline]] void replace_lanes_by(const T* x, const T* y, PacketOf<T>& to,
                                        std::uint32_t lanes) {
  replace_lanes<T>(to, lanes, [x, y](std::size_t i) { return F::apply(x[i], y[i]); });
}

/// The number that, added to a small number, rounds it to a whole one: the last bits of the sum are
/// those of that number.
template <typename T>
inline constexpr T kWholeShift = T(1.5) * T(WordOf<T>(1) << (std::numeric_limits<T>::digits - 1));

/// y 2^m where that is a normal number: m, whole, is added to the exponent of y. `shifted` is m and
/// kWholeShift.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> scaled_by_shifted(const PacketOf<T>& y,
                                                  const PacketOf<T>& shifted) {
  using Bits = BitsOf<T>;
  constexpr int kDigits = std::numeric_limits<T>::digits - 1;
  return std::bit_cast<PacketOf<T>>(std::bit_cast<Bits>(y) +
                                    (std::bit_cast<Bits>(shifted) << kDigits));
}
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> scaled_by_power(const PacketOf<T>& y, const PacketOf<T>& m) {
  using namespace Eigen::internal;
  return scaled_by_shifted<T>(y, padd(m, pset1<PacketOf<T>>(kWholeShift<T>)));
}

/// c[0] z^(n - 1) + ... + c[n - 1].
template <typename T, std::size_t count>
EIGEN_ALWAYS_INLINE PacketOf<T> polynomial(const PacketOf<T>& z, const T (&c)[count]) {
  using namespace Eigen::internal;
  PacketOf<T> value = pset1<PacketOf<T>>(c[0]);
#pragma GCC unroll 16
  for (std::size_t i = 1; i < count; ++i) value = pmadd(value, z, pset1<PacketOf<T>>(c[i]));
  return value;
}

/// p(r) in exp(r) = 1 + r + r^2 p(r), |r| <= log(2) / 2 and a little, through its values at
/// Chebyshev's points. exp(r) is off by 3e-9 of itself in float at most, in double by less than a
/// tenth of its last digit.
EIGEN_ALWAYS_INLINE PacketOf<float> exp_beyond_line(const PacketOf<float>& r) {
  static constexpr float kBeyond[] = {1.381460228e-3f, 8.368715644e-3f, 4.166838899e-2f,
                                      1.666652113e-1f, 4.999999404e-1f};
  return polynomial<float>(r, kBeyond);
}
EIGEN_ALWAYS_INLINE PacketOf<double> exp_beyond_line(const PacketOf<double>& r) {
  static constexpr double kBeyond[] = {2.5100424157005066788e-8, 2.7620138719733995569e-7,
                                       2.7557268378684192873e-6, 2.4801521190217727651e-5,
                                       1.9841269863105968748e-4, 1.3888888917281793308e-3,
                                       8.3333333333300513464e-3, 4.1666666666623991516e-2,
                                       1.6666666666666667456e-1, 5.0000000000000010262e-1};
  return polynomial<double>(r, kBeyond);
}
/// exp(r) - 1 of the same.
template <typename Packet>
EIGEN_ALWAYS_INLINE Packet exp_beyond_one(const Packet& r) {
  using namespace Eigen::internal;
  return pmadd(pmul(r, r), exp_beyond_line(r), r);
}

/// x = m log 2 + r.
template <typename T>
struct ReducedExponent {
  PacketOf<T> shifted;  ///< m and kWholeShift
  PacketOf<T> rest;     ///< r
};
template <typename T>
EIGEN_ALWAYS_INLINE ReducedExponent<T> reduced_exponent(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const auto number = [](T value) { return pset1<PacketOf<T>>(value); };
  // log 2 in two parts, m times the first of which has no error.
  constexpr bool kSingle = sizeof(T) == sizeof(float);
  constexpr T kHigh = kSingle ? T(0.693359375) : T(0.693145751953125);
  constexpr T kLow = kSingle ? T(-2.12194440e-4) : T(1.42860682030941723212e-6);
  const auto shift = number(kWholeShift<T>);
  const auto shifted = pmadd(x, number(T(1.4426950408889634073599)), shift);
  const auto m = psub(shifted, shift);
  return {shifted, pmadd(m, number(-kLow), pmadd(m, number(-kHigh), x))};
}

/// exp of each lane where it is a normal number. For float it is off by less than one last digit in
/// all (0.88, tried on every seventh number).
EIGEN_ALWAYS_INLINE PacketOf<float> normal_exp(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  const auto one = pset1<PacketOf<float>>(1.0f);
  const ReducedExponent<float> exponent = reduced_exponent<float>(x);
  const auto r = exponent.rest;
  return scaled_by_shifted<float>(pmadd(pmadd(exp_beyond_line(r), r, one), r, one),
                                  exponent.shifted);
}
EIGEN_ALWAYS_INLINE PacketOf<double> normal_exp(const PacketOf<double>& x) {
  const auto one = Eigen::internal::pset1<PacketOf<double>>(1);
  const ReducedExponent<double> exponent = reduced_exponent<double>(x);
  return scaled_by_shifted<double>(Eigen::internal::padd(exp_beyond_one(exponent.rest), one),
                                   exponent.shifted);
}

/// The range in which exp is a normal number.
template <typename T>
inline constexpr T kLowestExp = -0x1.6232bdd7abcd2p+9;
template <typename T>
inline constexpr T kHighestExp = 0x1.62e42fefa39efp+9;
template <>
inline constexpr float kLowestExp<float> = -0x1.5d589ep+6f;
template <>
inline constexpr float kHighestExp<float> = 0x1.62e42ep+6f;

/// exp of each lane, a number that is at most kHighestExp. Results below the smallest normal number
/// are 0.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_exp_of_number(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  return where_less<T>(x, pset1<PacketOf<T>>(kLowestExp<T>), pset1<PacketOf<T>>(T(0)),
                       normal_exp(x));
}

/// The same where a lane may be NaN.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_exp_below(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  return pselect(pcmp_eq(x, x), packet_exp_of_number<T>(x), x);
}

/// Lanes that packet_exp() does not handle as ordinary ones.
template <typename T>
[[gnu::noinline]] void exp_of_any_lanes(const PacketOf<T>& x, PacketOf<T>& y) {
  using namespace Eigen::internal;
  const PacketOf<T> infinite = pset1<PacketOf<T>>(std::numeric_limits<T>::infinity());
  y = pselect(pcmp_lt(pset1<PacketOf<T>>(kHighestExp<T>), x), infinite, packet_exp_below<T>(x));
}

/// exp of each lane. Results above the largest number are infinite.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_exp(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> far = pcmp_lt_or_nan(pset1<PacketOf<T>>(-kLowestExp<T>), pabs(x));
  PacketOf<T> y = normal_exp(x);
  if (predux_any(std::bit_cast<PacketOf<float>>(far))) exp_of_any_lanes<T>(x, y);
  return y;
}

/// Lanes that packet_exp2() does not handle as ordinary ones.
template <typename T>
[[gnu::noinline]] void exp2_of_any_lanes(const PacketOf<T>& x, PacketOf<T>& y) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  using Limits = std::numeric_limits<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  const Packet infinite = number(Limits::infinity()), least = number(T(Limits::min_exponent - 1));
  const Packet above = where_less<T>(x, number(T(Limits::max_exponent)), y, infinite);
  y = where_equal<T>(x, x, where_less<T>(x, least, number(0), above), x);
}

/// 2^x. Results below the smallest normal number are 0.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_exp2(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  const Packet shift = number(kWholeShift<T>), shifted = padd(x, shift);
  const Packet r = pmul(psub(x, psub(shifted, shift)), number(T(0.693147180559945309417)));
  Packet y = scaled_by_shifted<T>(padd(number(1), exp_beyond_one(r)), shifted);
  constexpr T kFar = T(std::numeric_limits<T>::max_exponent - 2);
  const Packet far = pcmp_lt_or_nan(number(kFar), pabs(x));
  if (predux_any(std::bit_cast<PacketOf<float>>(far))) exp2_of_any_lanes<T>(x, y);
  return y;
}

/// The whole number above the digits of bits, less `bias`: as the last digits of a number that is
/// so large that they are whole ones.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> exponent_field(const BitsOf<T>& bits, int bias) {
  using namespace Eigen::internal;
  constexpr int kDigits = std::numeric_limits<T>::digits - 1;
  constexpr T kWhole = T(WordOf<T>(1) << kDigits);
  const BitsOf<T> field = (bits >> kDigits) | std::bit_cast<WordOf<T>>(kWhole);
  return psub(std::bit_cast<PacketOf<T>>(field), pset1<PacketOf<T>>(kWhole + T(bias)));
}

/// A positive normal number as fraction 2^exponent, the fraction in [sqrt(1/2), sqrt(2)).
template <typename T>
struct SplitNumber {
  PacketOf<T> exponent;
  PacketOf<T> fraction;
};
template <typename T>
EIGEN_ALWAYS_INLINE SplitNumber<T> split_number(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  using Bits = BitsOf<T>;
  using Word = WordOf<T>;
  constexpr int kDigits = std::numeric_limits<T>::digits - 1;
  constexpr Word kOne = std::bit_cast<Word>(T(1)),
                 kRoot = std::bit_cast<Word>(T(element::kSqrtHalf));
  constexpr Word kFields = ~((Word(1) << kDigits) - 1);
  const Bits bits = std::bit_cast<Bits>(x), moved = bits + (kOne - kRoot);
  return {exponent_field<T>(moved, static_cast<int>(kOne >> kDigits)),
          std::bit_cast<Packet>(bits - (moved & kFields) + kOne)};
}

/// log(1 + f) - f + f^2 / 2 for 1 + f in [sqrt(1/2), sqrt(2)), as Eigen computes it (Cephes).
EIGEN_ALWAYS_INLINE PacketOf<float> log_beyond_square(const PacketOf<float>& f) {
  using namespace Eigen::internal;
  const auto number = [](float value) { return pset1<PacketOf<float>>(value); };
  const auto cube = pmul(pmul(f, f), f);
  auto high = pmadd(number(7.0376836292E-2f), f, number(-1.1514610310E-1f));
  auto middle = pmadd(number(-1.2420140846E-1f), f, number(1.4249322787E-1f));
  auto low = pmadd(number(2.0000714765E-1f), f, number(-2.4999993993E-1f));
  high = pmadd(high, f, number(1.1676998740E-1f));
  middle = pmadd(middle, f, number(-1.6668057665E-1f));
  low = pmadd(low, f, number(3.3333331174E-1f));
  return pmul(pmadd(pmadd(high, cube, middle), cube, low), cube);
}
EIGEN_ALWAYS_INLINE PacketOf<double> log_beyond_square(const PacketOf<double>& f) {
  using namespace Eigen::internal;
  const auto number = [](double value) { return pset1<PacketOf<double>>(value); };
  const auto cube = pmul(pmul(f, f), f);
  auto high = pmadd(number(1.01875663804580931796E-4), f, number(4.97494994976747001425E-1));
  auto low = pmadd(number(1.44989225341610930846E1), f, number(1.79368678507819816313E1));
  high = pmadd(high, f, number(4.70579119878881725854E0));
  low = pmadd(low, f, number(7.70838733755885391666E0));
  const auto above = pmadd(high, cube, low);
  high = padd(f, number(1.12873587189167450590E1));
  low = pmadd(number(8.29875266912776603211E1), f, number(7.11544750618563894466E1));
  high = pmadd(high, f, number(4.52279145837532221105E1));
  low = pmadd(low, f, number(2.31251620126765340583E1));
  return pdiv(pmul(above, cube), pmadd(high, cube, low));
}

/// log |x| = exponent log 2 + log(fraction). Subnormal numbers are scaled first.
template <typename T>
struct LogParts {
  PacketOf<T> exponent;
  PacketOf<T> log_fraction;
};
template <typename T>
EIGEN_ALWAYS_INLINE LogParts<T> log_parts(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  constexpr int kShift = 60;
  // Of negative numbers, too, as the result of their bits may be subnormal, which takes longer.
  const Packet size = pabs(x);
  const Packet small = pcmp_lt(size, pset1<Packet>(std::numeric_limits<T>::min()));
  const Packet scaled = pselect(small, pmul(size, pset1<Packet>(std::ldexp(T(1), kShift))), size);
  const SplitNumber<T> parts = split_number<T>(scaled);
  const Packet f = psub(parts.fraction, pset1<Packet>(1));
  const Packet beyond = pmadd(pset1<Packet>(T(-0.5)), pmul(f, f), log_beyond_square(f));
  return {psub(parts.exponent, pand(small, pset1<Packet>(T(kShift)))), padd(f, beyond)};
}

/// A logarithm, `log` where x is an ordinary number.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> with_ends_of_log(const PacketOf<T>& x, const PacketOf<T>& log) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const Packet zero = pset1<Packet>(0);
  const Packet ordinary = where_less<T>(x, pset1<Packet>(kInfinity), log, x);
  const Packet undefined = pset1<Packet>(std::numeric_limits<T>::quiet_NaN());
  return where_equal<T>(x, zero, pset1<Packet>(-kInfinity),
                        where_less<T>(x, zero, undefined, ordinary));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_log(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const LogParts<T> parts = log_parts<T>(x);
  const PacketOf<T> log_two = pset1<PacketOf<T>>(T(0.693147180559945309417));
  return with_ends_of_log<T>(x, pmadd(parts.exponent, log_two, parts.log_fraction));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_log2(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const LogParts<T> parts = log_parts<T>(x);
  const PacketOf<T> per_log = pset1<PacketOf<T>>(T(1.4426950408889634073599));
  return with_ends_of_log<T>(x, pmadd(parts.log_fraction, per_log, parts.exponent));
}

/// log10(2) is in two parts, the exponent times the first of which has no error.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_log10(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const auto number = [](T value) { return pset1<PacketOf<T>>(value); };
  constexpr T kHigh = T(0.301025390625), kLow = T(4.60503898119521373889e-6);
  const LogParts<T> parts = log_parts<T>(x);
  const PacketOf<T> fraction = pmul(parts.log_fraction, number(T(0.434294481903251827651)));
  const PacketOf<T> low = pmadd(parts.exponent, number(kLow), fraction);
  return with_ends_of_log<T>(x, pmadd(parts.exponent, number(kHigh), low));
}

/// log(1 + x): 1 + x is split as for a logarithm, and the last digits of x that it has lost are
/// added to its fraction.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_log1p(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const auto number = [](T value) { return pset1<Packet>(value); };
  const Packet one = number(1), sum = padd(x, one);
  const SplitNumber<T> parts = split_number<T>(sum);
  // Large numbers lose nothing, and the power of two would be no normal number.
  constexpr T kMost = -T(std::numeric_limits<T>::min_exponent - 1);
  const Packet scale = scaled_by_power<T>(one, pnegate(pmin(parts.exponent, number(kMost))));
  const Packet given_back = pmul(psub(x, psub(sum, one)), scale);
  const Packet f = padd(psub(parts.fraction, one), given_back);
  const Packet beyond = pmadd(number(T(-0.5)), pmul(f, f), log_beyond_square(f));
  const Packet log = pmadd(parts.exponent, number(T(0.693147180559945309417)), padd(f, beyond));
  const Packet ordinary = where_less<T>(x, number(kInfinity), log, x);
  const Packet undefined = number(std::numeric_limits<T>::quiet_NaN());
  const Packet ends = where_equal<T>(x, number(-1), number(-kInfinity),
                                     where_less<T>(x, number(-1), undefined, ordinary));
  return where_equal<T>(sum, one, x, ends);
}

/// 1 / (1 + exp(-x)).
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_sigmoid(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> one = pset1<PacketOf<T>>(1);
  return pdiv(one, padd(one, packet_exp<T>(pnegate(x))));
}

/// `size` with the sign of x.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> with_sign_of(const PacketOf<T>& x, const PacketOf<T>& size) {
  using namespace Eigen::internal;
  return por(size, pand(x, pset1<PacketOf<T>>(T(-0.0))));
}

/// Eigen has packets of float only, makes numbers of NaN, and on processors whose multiplications
/// it does not know to be fused gives large numbers a little less than 1.
EIGEN_ALWAYS_INLINE PacketOf<float> packet_tanh(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<float>;
  constexpr float kOne = 9.5f;  // from here on tanh is 1
  const Packet far = with_sign_of<float>(x, pset1<Packet>(1.0f));
  const Packet value = where_less<float>(pabs(x), pset1<Packet>(kOne), ptanh(x), far);
  return where_equal<float>(x, x, value, x);
}
/// p / (p + 2) for p = exp(2 |x|) - 1, which is 2^m (exp(r) - 1) + (2^m - 1).
EIGEN_ALWAYS_INLINE PacketOf<double> packet_tanh(const PacketOf<double>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<double>;
  const auto number = [](double value) { return pset1<Packet>(value); };
  constexpr double kOne = 20;  // from here on tanh is 1
  const Packet size = pabs(x);
  const Packet within = where_less<double>(size, number(kOne), size, number(kOne));
  const ReducedExponent<double> exponent = reduced_exponent<double>(padd(within, within));
  const Packet scale = scaled_by_shifted<double>(number(1), exponent.shifted);
  const Packet less_one = pmadd(exp_beyond_one(exponent.rest), scale, psub(scale, number(1)));
  const Packet value = pdiv(less_one, padd(less_one, number(2)));
  return where_equal<double>(x, x, with_sign_of<double>(x, value), x);
}

/// The functions of an angle that share its reduction to an eighth of a turn around 0.
enum class Turn { kSin, kCos, kTan };

/// Up to this size an angle is reduced in packets: the quarters in it are counted exactly.
template <typename T>
inline constexpr T kFarthestTurn = 0x1p20;
#ifdef EIGEN_HAS_SINGLE_INSTRUCTION_MADD
template <>
inline constexpr float kFarthestTurn<float> = 0x1p16f;
#else
template <>
inline constexpr float kFarthestTurn<float> = 0x1p14f;
#endif

/// x less `quarters` quarters of a turn, which is taken in parts: products with the first ones, or,
/// where they are fused, the terms added, are exact.
EIGEN_ALWAYS_INLINE PacketOf<float> less_quarters(PacketOf<float> x,
                                                  const PacketOf<float>& quarters) {
  using namespace Eigen::internal;
#ifdef EIGEN_HAS_SINGLE_INSTRUCTION_MADD
  constexpr float kParts[] = {1.57079601287841796875f, 3.1391647326017846353352069854736328125e-07f,
                              5.390302529957764765544681040410068817436695098876953125e-15f};
#else
  constexpr float kParts[] = {1.5703125f, 0.000483989715576171875f,
                              -1.62865035235881805419921875e-07f,
                              -5.5644315544167710640977020375430583953857421875e-11f};
#endif
  for (const float part : kParts) x = pmadd(quarters, pset1<PacketOf<float>>(-part), x);
  return x;
}
EIGEN_ALWAYS_INLINE PacketOf<double> less_quarters(PacketOf<double> x,
                                                   const PacketOf<double>& quarters) {
  using namespace Eigen::internal;
  constexpr double kParts[] = {1.57079632673412561417e+00, 6.07710050630396597660e-11,
                               2.02226624879595063154e-21};
  for (const double part : kParts) x = pmadd(quarters, pset1<PacketOf<double>>(-part), x);
  return x;
}

/// sin and cos of an angle within an eighth of a turn, of which `z` is the square (Eigen; fdlibm).
EIGEN_ALWAYS_INLINE PacketOf<float> sine_near(const PacketOf<float>& x, const PacketOf<float>& z) {
  static constexpr float kSine[] = {-0.0001959234114083702898469196984621021329076029360294342f,
                                    0.00833268736556168516937947998712843400426209f,
                                    -0.16666662039822982555037356178218033164739609f};
  return Eigen::internal::pmadd(Eigen::internal::pmul(polynomial<float>(z, kSine), z), x, x);
}
EIGEN_ALWAYS_INLINE PacketOf<float> cosine_near(const PacketOf<float>& z) {
  static constexpr float kCosine[] = {2.4372266125283204019069671630859375e-05f,
                                      -0.00138865201734006404876708984375f,
                                      0.041666619479656219482421875f, -0.5f, 1.0f};
  return polynomial<float>(z, kCosine);
}
EIGEN_ALWAYS_INLINE PacketOf<double> sine_near(const PacketOf<double>& x,
                                               const PacketOf<double>& z) {
  static constexpr double kSine[] = {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                                     2.75573137070700676789e-06, -1.98412698298579493134e-04,
                                     8.33333333332248946124e-03, -1.66666666666666324348e-01};
  return Eigen::internal::pmadd(Eigen::internal::pmul(polynomial<double>(z, kSine), z), x, x);
}
EIGEN_ALWAYS_INLINE PacketOf<double> cosine_near(const PacketOf<double>& z) {
  static constexpr double kCosine[] = {-1.13596475577881948265e-11,
                                       2.08757232129817482790e-09,
                                       -2.75573143513906633035e-07,
                                       2.48015872894767294178e-05,
                                       -1.38888888888741095749e-03,
                                       4.16666666666666019037e-02,
                                       -0.5,
                                       1.0};
  return polynomial<double>(z, kCosine);
}

/// `y`, with the value of the standard library in the lanes where x is larger than kFarthestTurn.
template <Turn turn, typename T>
[[gnu::noinline]] void turn_far_lanes(const PacketOf<T>& x, PacketOf<T>& y) {
  constexpr std::size_t kWidth = Eigen::internal::packet_traits<T>::size;
  T angles[kWidth], values[kWidth];
  Eigen::internal::pstoreu(angles, x);
  Eigen::internal::pstoreu(values, y);
  for (std::size_t i = 0; i < kWidth; ++i) {
    if (!(std::abs(angles[i]) > kFarthestTurn<T>)) continue;
    values[i] = turn == Turn::kSin   ? std::sin(angles[i])
                : turn == Turn::kCos ? std::cos(angles[i])
                                     : std::tan(angles[i]);
  }
  y = Eigen::internal::ploadu<PacketOf<T>>(values);
}

/// sin, cos or tan of each lane.
template <Turn turn, typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_sine(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  using Bits = BitsOf<T>;
  constexpr int kLast = sizeof(T) * 8 - 1;
  // The last bits of a shifted number are those of a whole number.
  const Packet shift = pset1<Packet>(kWholeShift<T>);
  const Packet size = pabs(x);
  const Packet shifted = pmadd(size, pset1<Packet>(T(0.63661977236758134308)), shift);
  const Packet rest = less_quarters(size, psub(shifted, shift));
  const Bits quarter = std::bit_cast<Bits>(shifted) + (turn == Turn::kCos ? 1 : 0);
  const Packet is_odd = std::bit_cast<Packet>(Bits{} - (quarter & 1));
  const Packet z = pmul(rest, rest), sine = sine_near(rest, z), cosine = cosine_near(z);
  const Packet first = pselect(is_odd, cosine, sine);
  Packet value;
  if constexpr (turn == Turn::kTan) {
    const Packet flip = pand(is_odd, pset1<Packet>(T(-0.0)));
    value = pxor(pdiv(first, pselect(is_odd, sine, cosine)), flip);
  } else {
    value = pxor(first, std::bit_cast<Packet>((quarter >> 1) << kLast));
  }
  if (turn != Turn::kCos) value = pxor(value, pand(x, pset1<Packet>(T(-0.0))));
  const Packet far = pcmp_lt(pset1<Packet>(kFarthestTurn<T>), size);
  if (predux_any(std::bit_cast<PacketOf<float>>(far))) turn_far_lanes<turn, T>(x, value);
  return value;
}

}  // namespace shardlab
