// packet_functions.h - exp, log, tanh and sigmoid of each number in a packet, Eigen's name for a
// vector register. A lane's result depends on that lane alone, and is right to a few last digits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
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
  // The exponent as the last digits of a number that is so large that they are whole ones.
  constexpr T kWhole = T(Word(1) << kDigits);
  const Bits field = (moved >> kDigits) | std::bit_cast<Word>(kWhole);
  return {psub(std::bit_cast<Packet>(field), pset1<Packet>(kWhole + T(kOne >> kDigits))),
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

/// log(x / 2^shift) of each lane, a positive normal number: exponent log 2 + log(fraction).
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> normal_log(const PacketOf<T>& x, const PacketOf<T>& shift) {
  using namespace Eigen::internal;
  const auto number = [](T value) { return pset1<PacketOf<T>>(value); };
  const SplitNumber<T> parts = split_number<T>(x);
  const PacketOf<T> f = psub(parts.fraction, number(1));
  const PacketOf<T> beyond = pmadd(number(T(-0.5)), pmul(f, f), log_beyond_square(f));
  return pmadd(psub(parts.exponent, shift), number(T(0.693147180559945309417)), padd(f, beyond));
}

/// Lanes that packet_log() does not handle as ordinary ones. Subnormal numbers are scaled first.
template <typename T>
[[gnu::noinline]] void log_of_any_lanes(const PacketOf<T>& x, PacketOf<T>& y) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  constexpr int kShift = 60;
  const Packet small = pcmp_lt(x, number(std::numeric_limits<T>::min())), zero = number(0);
  const Packet scaled = pselect(small, pmul(x, number(std::ldexp(T(1), kShift))), x);
  const Packet log = normal_log<T>(scaled, pand(small, number(T(kShift))));
  const Packet ordinary = where_less<T>(x, number(kInfinity), log, x);
  const Packet undefined = number(std::numeric_limits<T>::quiet_NaN());
  y = where_equal<T>(x, zero, number(-kInfinity), where_less<T>(x, zero, undefined, ordinary));
}

/// log of each lane. Those of normal numbers, negative ones too, are ordinary.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_log(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Limits = std::numeric_limits<T>;
  const auto number = [](T value) { return pset1<PacketOf<T>>(value); };
  const PacketOf<T> size = pabs(x), zero = number(0);
  const PacketOf<T> far =
      por(pcmp_lt_or_nan(size, number(Limits::min())), pcmp_lt(number(Limits::max()), size));
  PacketOf<T> y = where_less<T>(x, zero, number(Limits::quiet_NaN()), normal_log<T>(size, zero));
  if (predux_any(std::bit_cast<PacketOf<float>>(far))) log_of_any_lanes<T>(x, y);
  return y;
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

}  // namespace shardlab
