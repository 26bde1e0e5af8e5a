// packet_power.h - powers, x^y = exp(y log |x|) with the sign of x^y. A logarithm needs more digits
// than a number has, as y multiplies its error: it is a pair, a number and the part lost in its
// rounding, which for floats takes a third of the time of doubles. Lanes that are infinite,
// undefined, subnormal or zero are left to doubles, of doubles to the standard library; so are all
// lanes where a processor does not fuse multiplications and additions, since it cannot compute the
// part lost in rounding in one step.
#pragma once

#include "kernels/functors.h"
#include "kernels/packet_lookup.h"
#include "kernels/vectors.h"

namespace shardlab {

/// `size` with the sign of x^y for a whole y, NaN for other powers of negative numbers. Infinite
/// powers are whole and even.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> with_sign_of_power(const PacketOf<T>& x, const PacketOf<T>& y,
                                                   const PacketOf<T>& size) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  const Packet half = pmul(y, number(T(0.5))), with_sign = pxor(size, pand(x, number(T(-0.0))));
  const Packet whole = where_equal<T>(pfloor(half), half, size, with_sign);
  const Packet undefined = number(std::numeric_limits<T>::quiet_NaN());
  const Packet broken = where_less<T>(x, number(0), undefined, size);
  return where_equal<T>(pfloor(y), y, whole, broken);
}

/// k of 2^k z, z from some least number on: `moved` are the bits of the number less those of the
/// least z.
EIGEN_ALWAYS_INLINE PacketOf<float> exponent_of(const BitsOf<float>& moved) {
  typedef std::int32_t Whole __attribute__((vector_size(sizeof(PacketOf<float>))));
  const Whole exponent = std::bit_cast<Whole>(moved) >> 23;
  return std::bit_cast<PacketOf<float>>(__builtin_convertvector(exponent, PacketOf<float>));
}
EIGEN_ALWAYS_INLINE PacketOf<double> exponent_of(const BitsOf<double>& moved) {
  // Not all processors convert such integers.
  constexpr int kBias = 1024;
  return exponent_field<double>(moved + (std::uint64_t{kBias} << 52), kBias);
}

/// log2 of positive normal numbers, off by 2^-37 of itself at most: x = 2^k z, and z is near the
/// middle c of one of 16 parts, log2(z) = log2(c) + log2(1 + r), r = z / c - 1 below 1/32. The part
/// around 1 has the middle 1, so that small logarithms keep their digits.
EIGEN_ALWAYS_INLINE PacketOf<double> log2_for_float(const PacketOf<double>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<double>;
  using Bits = BitsOf<double>;
  static constexpr double kInverse[16] = {1.3919621749408984, 1.333912288319583,
                                          1.2805122048819528, 1.2312245652978173,
                                          1.1855917667238423, 1.1432216905901116,
                                          1.103776390127862,  1.0669630452903585,
                                          1.0325266718709343, 1.0,
                                          0.941991341991342,  0.8895752895752895,
                                          0.8426888426888427, 0.8005003126954346,
                                          0.7623369256948384, 0.7276485788113695};
  static constexpr double kLog[16] = {-0.4771200080497008,   -0.4156638049283105,
                                      -0.35672100368802095,  -0.3000939216063975,
                                      -0.24560733407560983,  -0.19310519436820275,
                                      -0.14244793160098929,  -0.09351020868379104,
                                      -0.046179049324072616, 0.0,
                                      0.0862142950530804,    0.16881138113160396,
                                      0.2469280710476126,    0.3210261285929697,
                                      0.39149933654142133,   0.4586862323944755};
  static constexpr double kBeyond[] = {-0.2407135712023998, 0.2888411696209926,
                                       -0.3606736633727323, 0.480898236281306,
                                       -0.7213475204497364, 1.4426950408949686};
  constexpr std::uint64_t kLeast = std::bit_cast<std::uint64_t>(0.703125);  // of all z
  constexpr std::uint64_t kFields = ~std::uint64_t{0} << 52;
  const Bits bits = std::bit_cast<Bits>(x), moved = bits - kLeast;
  const Bits index = (moved >> 48) & 15;
  const Packet k = exponent_of(moved), z = std::bit_cast<Packet>(bits - (moved & kFields));
  const Packet r = pmadd(z, looked_up(kInverse, index), pset1<Packet>(-1));
  return pmadd(polynomial<double>(r, kBeyond), r, padd(k, looked_up(kLog, index)));
}

/// 2^x, |x| <= 1000, off by 2^-38 of itself at most: of the next sixteenth by a table, of the rest
/// by a polynomial.
EIGEN_ALWAYS_INLINE PacketOf<double> exp2_for_float(const PacketOf<double>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<double>;
  using Bits = BitsOf<double>;
  static constexpr double kPowers[16] = {1.0,
                                         1.0442737824274138,
                                         1.0905077326652577,
                                         1.1387886347566916,
                                         1.189207115002721,
                                         1.241857812073484,
                                         1.2968395546510096,
                                         1.3542555469368927,
                                         1.4142135623730951,
                                         1.4768261459394993,
                                         1.5422108254079407,
                                         1.6104903319492543,
                                         1.681792830507429,
                                         1.7562521603732995,
                                         1.8340080864093424,
                                         1.9152065613971474};
  static constexpr double kRest[] = {0.009618317516837862, 0.05550573957157773, 0.24022650691301023,
                                     0.6931471801609769, 1.0};
  const Packet shift = pset1<Packet>(kWholeShift<double> / 16), shifted = padd(x, shift);
  const Packet rest = psub(x, psub(shifted, shift));
  const Bits sixteenths = std::bit_cast<Bits>(shifted);
  const Packet near = pmul(polynomial<double>(rest, kRest), looked_up(kPowers, sixteenths & 15));
  return std::bit_cast<Packet>(std::bit_cast<Bits>(near) +
                               ((sixteenths & ~std::uint64_t{15}) << 48));
}

/// |x|^y with the sign of x^y, of `power` = y log2 |x|.
EIGEN_ALWAYS_INLINE PacketOf<double> signed_power(const PacketOf<double>& x,
                                                  const PacketOf<double>& y,
                                                  const PacketOf<double>& power) {
  using namespace Eigen::internal;
  const auto number = [](double value) { return pset1<PacketOf<double>>(value); };
  constexpr double kBeyond = 200;  // 2^200 is infinite in a float, 2^-200 is 0
  return with_sign_of_power<double>(
      x, y, exp2_for_float(pmax(pmin(power, number(kBeyond)), number(-kBeyond))));
}

/// Lanes that packet_power_for_float() does not handle as ordinary ones.
[[gnu::noinline]] inline void power_of_any_lanes(const PacketOf<double>& x,
                                                 const PacketOf<double>& y,
                                                 PacketOf<double>& result) {
  using namespace Eigen::internal;
  using Packet = PacketOf<double>;
  const auto number = [](double value) { return pset1<Packet>(value); };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Packet zero = number(0), one = number(1), size = pabs(x);
  Packet log = log2_for_float(size);
  log = pselect(pcmp_eq(size, zero), number(-1e300), log);
  log = pselect(pcmp_eq(size, number(kInfinity)), number(1e300), log);
  const Packet power = pselect(pcmp_eq(size, one), zero, pmul(y, log));
  // A power of minus infinity is real; if it is not whole, that of infinity.
  const Packet is_plain = por(pcmp_eq(pfloor(y), y), pcmp_lt(number(-kInfinity), x));
  result = signed_power(pselect(is_plain, x, size), y, power);
  result = pselect(pcmp_eq(x, x), pselect(pcmp_eq(y, y), result, y), x);
  result = pselect(por(pcmp_eq(y, zero), pcmp_eq(x, one)), one, result);
}

/// x^y rounded far beyond the digits of a float, of floats as doubles: 2^(y log2 |x|).
EIGEN_ALWAYS_INLINE PacketOf<double> packet_power_for_float(const PacketOf<double>& x,
                                                            const PacketOf<double>& y) {
  using namespace Eigen::internal;
  using Packet = PacketOf<double>;
  const auto number = [](double value) { return pset1<Packet>(value); };
  constexpr double kMost = std::numeric_limits<float>::max();
  const Packet size = pabs(x);
  Packet result = signed_power(x, y, pmul(y, log2_for_float(size)));
  const Packet far = por(pcmp_lt_or_nan(number(kMost), size),
                         por(pcmp_lt_or_nan(number(kMost), pabs(y)), pcmp_eq(size, number(0))));
  if (predux_any(std::bit_cast<PacketOf<float>>(far))) power_of_any_lanes(x, y, result);
  return result;
}

/// to[i] = x[i]^y[i] in doubles for a packet of doubles, rounded once.
inline void powers_by_doubles(const float* x, const float* y, float* to) {
  constexpr std::size_t kWidth = Eigen::internal::packet_traits<double>::size;
  typedef float Narrow __attribute__((vector_size(kWidth * sizeof(float))));
  typedef double Wide __attribute__((vector_size(kWidth * sizeof(double))));
  const auto wide = [](const float* from) {
    Narrow narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    return std::bit_cast<PacketOf<double>>(__builtin_convertvector(narrow, Wide));
  };
  const Wide power = std::bit_cast<Wide>(packet_power_for_float(wide(x), wide(y)));
  const Narrow rounded = __builtin_convertvector(power, Narrow);
  std::memcpy(to, &rounded, sizeof(rounded));
}

#ifdef __FMA__
/// A number and the part lost in its rounding.
template <typename T>
struct NumberPair {
  PacketOf<T> high, low;
};

/// For logarithms: the middles of equal parts of an octave from kLeast on, equal in either half of
/// it, as factors of a number, and their logarithms in two numbers, whole multiples of the first of
/// which have no error, as that of log 2. The middle of the part around 1 is 1, so that small
/// logarithms keep their digits. For powers: sixteenths of log 2 in two such numbers, 2^(j/16) less
/// the bits that j of them add, and the part of it that T cannot hold. The polynomials are made
/// through the values at Chebyshev's points.
template <typename T>
struct PowerTables;
template <>
struct PowerTables<float> {
  static constexpr float kLeast = 0.7109375f;
  static constexpr int kPartBits = 5;
  static constexpr float kInverse[32] = {
      1.39130437f,  1.36170208f,  1.33333337f,  1.30612242f,  1.27999997f,  1.25490201f,
      1.23076928f,  1.20754719f,  1.18518519f,  1.16363633f,  1.14285719f,  1.12280703f,
      1.10344827f,  1.08474576f,  1.06666672f,  1.04918027f,  1.03225803f,  1.01587307f,
      1.0f,         0.969696999f, 0.941176474f, 0.914285719f, 0.888888896f, 0.864864886f,
      0.842105269f, 0.820512831f, 0.800000012f, 0.780487776f, 0.761904776f, 0.744186044f,
      0.727272749f, 0.711111128f};
  static constexpr float kLogHigh[32] = {
      -0.330230713f, -0.308746338f,  -0.287689209f,  -0.267059326f,  -0.246856689f,  -0.227050781f,
      -0.207641602f, -0.188598633f,  -0.169891357f,  -0.151550293f,  -0.133544922f,  -0.115844727f,
      -0.098449707f, -0.0813598633f, -0.0645446777f, -0.0480041504f, -0.0317382812f, -0.0157470703f,
      0.0f,          0.0307617188f,  0.0606384277f,  0.0895996094f,  0.117797852f,   0.145172119f,
      0.171844482f,  0.197814941f,   0.223144531f,   0.247833252f,   0.271942139f,   0.295471191f,
      0.318450928f,  0.340911865f};
  static constexpr float kLogLow[32] = {-1.09926068e-05f,
                                        1.08879058e-05f,
                                        7.10673021e-06f,
                                        -3.43858801e-06f,
                                        -3.36612675e-06f,
                                        -6.70477539e-06f,
                                        2.19953131e-06f,
                                        7.44810359e-06f,
                                        -7.68682366e-06f,
                                        4.26506517e-07f,
                                        1.34845468e-05f,
                                        1.2903587e-05f,
                                        9.63794355e-06f,
                                        1.42219651e-05f,
                                        6.10444295e-06f,
                                        -5.01291652e-06f,
                                        -1.03872626e-05f,
                                        -1.34439767e-06f,
                                        0.0f,
                                        9.91011439e-06f,
                                        -1.3809643e-05f,
                                        1.25437264e-05f,
                                        -1.48233567e-05f,
                                        9.86648956e-06f,
                                        5.76705406e-06f,
                                        1.07888854e-05f,
                                        -9.9483691e-07f,
                                        2.94920437e-06f,
                                        -8.44181432e-06f,
                                        -6.97478708e-06f,
                                        2.77358185e-06f,
                                        1.46975217e-05f};
  static constexpr float kLogTwoHigh = 0.693145751953125f, kLogTwoLow = 1.42860677e-06f;
  static constexpr bool kExactSquare = false;
  static constexpr float kBeyond[] = {0.200035408f, -0.25004071f, 0.333333343f, -0.5f};
  static constexpr float kStepHigh = 0.0433197021484375f, kStepLow = 1.99663646e-06f;
  static constexpr float kSteps = 23.0831203f;  // in 1
  static constexpr float kPowers[16] = {1.0f,         0.990886867f, 0.982753873f, 0.97564429f,
                                        0.969603539f, 0.964678884f, 0.960919797f, 0.958377779f,
                                        0.957106769f, 0.957163095f, 0.958605409f, 0.961495161f,
                                        0.965896428f, 0.971876085f, 0.979504049f, 0.988853276f};
  static constexpr float kMissing[16] = {0.0f,
                                         4.62854715e-08f,
                                         -1.19921575e-08f,
                                         4.72978243e-08f,
                                         3.19341815e-08f,
                                         3.62105723e-08f,
                                         -3.09907193e-08f,
                                         -7.47521334e-09f,
                                         1.71142709e-08f,
                                         -3.04768335e-08f,
                                         5.23333421e-09f,
                                         6.10759177e-09f,
                                         -1.47196051e-08f,
                                         -5.25879518e-09f,
                                         -6.12825968e-09f,
                                         5.14060927e-09f};
  static constexpr float kRest[] = {0.166669518f, 0.500014961f, 1.0f};
  static constexpr float kMostLog = 86;  // its powers are normal numbers
};
template <>
struct PowerTables<double> {
  static constexpr double kLeast = 0.703125;
  static constexpr int kPartBits = 4;
  static constexpr double kInverse[16] = {1.391304347826087,
                                          1.3333333333333333,
                                          1.28,
                                          1.2307692307692308,
                                          1.1851851851851851,
                                          1.1428571428571428,
                                          1.103448275862069,
                                          1.0666666666666667,
                                          1.032258064516129,
                                          1.0,
                                          0.9411764705882353,
                                          0.8888888888888888,
                                          0.8421052631578947,
                                          0.8,
                                          0.7619047619047619,
                                          0.7272727272727273};
  static constexpr double kLogHigh[16] = {-0.33024168687052224, -0.28768207245184385,
                                          -0.2468600779316148,  -0.20763936477828793,
                                          -0.16989903679541385, -0.13353139262449076,
                                          -0.09844007281321865, -0.0645385211375924,
                                          -0.03174869831468641, 0.0,
                                          0.06062462181648698,  0.11778303565643,
                                          0.17185025692674571,  0.22314355131425145,
                                          0.2719337154835557,   0.31845373111855224};
  static constexpr double kLogLow[16] = {-5.4584388914304586e-14, 6.297908504131321e-14,
                                         8.897769688389272e-14,   4.3369911444011306e-14,
                                         1.643178756532876e-14,   -3.1804225197847076e-14,
                                         -3.38573632414336e-14,   2.1239485832617812e-14,
                                         1.061342829278565e-13,   0.0,
                                         -5.2122328603557226e-14, -4.649178632475319e-14,
                                         -8.643688492088945e-14,  -4.175347699650321e-14,
                                         8.609857887931859e-14,   -1.765318688778829e-14};
  static constexpr double kLogTwoHigh = 0.6931471805598903, kLogTwoLow = 5.497923018708371e-14;
  static constexpr bool kExactSquare = true;
  static constexpr double kBeyond[] = {
      0.09107832649132762,  -0.10018333598805305, 0.11111098710946485,
      -0.12499986566734841, 0.1428571428907863,   -0.166666666703113,
      0.19999999999999754,  -0.24999999999999734, 0.3333333333333333};
  static constexpr double kStepHigh = 0.043321698783984175, kStepLow = 1.012406886666035e-12;
  static constexpr double kSteps = 23.083120654223414;  // in 1
  static constexpr double kPowers[16] = {1.0,
                                         0.9908868912137069,
                                         0.9827538663326288,
                                         0.9756443173783458,
                                         0.9696035575013605,
                                         0.964678906036742,
                                         0.9609197773255048,
                                         0.9583777734684463,
                                         0.9571067811865476,
                                         0.9571630729697497,
                                         0.9586054127039704,
                                         0.9614951659746271,
                                         0.9658964152537145,
                                         0.9718760801866497,
                                         0.9795040432046712,
                                         0.9888532806985737};
  static constexpr double kMissing[16] = {0.0,
                                          8.189317638195515e-17,
                                          -2.7939114859515733e-17,
                                          7.826573258636076e-17,
                                          3.3484623336251524e-17,
                                          3.750854201303127e-17,
                                          1.9572585293112036e-17,
                                          5.68648095791174e-17,
                                          -6.835808657661922e-17,
                                          -2.3591094770850053e-17,
                                          5.1548301170786783e-17,
                                          1.5341410053603723e-17,
                                          4.875160526227062e-17,
                                          1.685487290628973e-17,
                                          1.790126907604513e-17,
                                          -5.545065618639427e-17};
  static constexpr double kRest[] = {0.0001984149656472761,
                                     0.001388909294024313,
                                     0.008333333332800383,
                                     0.04166666666187011,
                                     0.16666666666666669,
                                     0.5000000000000003,
                                     1.0};
  static constexpr double kMostLog = 700;  // its powers are normal numbers
};

/// log(size) of normal numbers: size = 2^k z, and z / middle = 1 + r + e without an error.
template <typename T>
EIGEN_ALWAYS_INLINE NumberPair<T> log_in_pair(const PacketOf<T>& size) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  using Tables = PowerTables<T>;
  using Word = WordOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  constexpr int kDigits = std::numeric_limits<T>::digits - 1;
  constexpr Word kFields = ~((Word(1) << kDigits) - 1);
  const BitsOf<T> bits = std::bit_cast<BitsOf<T>>(size);
  const BitsOf<T> moved = bits - std::bit_cast<Word>(Tables::kLeast);
  const BitsOf<T> part = moved >> (kDigits - Tables::kPartBits);
  const Packet k = exponent_of(moved), z = std::bit_cast<Packet>(bits - (moved & kFields));
  const Packet inverse = looked_up(Tables::kInverse, part), ratio = pmul(z, inverse);
  const Packet r = psub(ratio, number(1)), e = pmadd(z, inverse, -ratio), square = pmul(r, r);
  const Packet whole = pmadd(k, number(Tables::kLogTwoHigh), looked_up(Tables::kLogHigh, part));
  Packet high = padd(whole, r);
  Packet low = pmadd(k, number(Tables::kLogTwoLow), looked_up(Tables::kLogLow, part));
  low = padd(padd(low, psub(r, psub(high, whole))), pmadd(-r, e, e));
  if constexpr (!Tables::kExactSquare) {
    return {high, pmadd(square, polynomial<T>(r, Tables::kBeyond), low)};
  }
  const Packet half = pmul(square, number(T(-0.5))), sum = padd(high, half);
  const Packet lost = pmul(pmadd(r, r, -square), number(T(-0.5)));
  low = padd(padd(low, lost), psub(half, psub(sum, high)));
  return {sum, pmadd(pmul(square, r), polynomial<T>(r, Tables::kBeyond), low)};
}

/// exp(x) where that is a normal number: the next sixteenth of a power of two, and the rest.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> exp_of_pair(const NumberPair<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  using Tables = PowerTables<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  constexpr int kSixteenth = std::numeric_limits<T>::digits - 1 - 4;
  const Packet shift = number(kWholeShift<T>);
  const Packet shifted = pmadd(padd(x.high, x.low), number(Tables::kSteps), shift);
  const Packet steps = psub(shifted, shift);
  const Packet first = padd(pmadd(steps, number(-Tables::kStepHigh), x.high), x.low);
  const Packet rest = pmadd(steps, number(-Tables::kStepLow), first);
  const BitsOf<T> step = std::bit_cast<BitsOf<T>>(shifted);
  const BitsOf<T> scaled =
      std::bit_cast<BitsOf<T>>(looked_up(Tables::kPowers, step)) + (step << kSixteenth);
  const Packet near = std::bit_cast<Packet>(scaled);
  const Packet beyond =
      pmadd(rest, polynomial<T>(rest, Tables::kRest), looked_up(Tables::kMissing, step));
  return pmadd(near, beyond, near);
}

/// Lanes whose size is not a normal number or whose power has a logarithm beyond kMostLog, or none;
/// a bit for each.
template <typename T>
EIGEN_ALWAYS_INLINE std::uint32_t unusual_lanes(const PacketOf<T>& size, const PacketOf<T>& log) {
  using namespace Eigen::internal;
  using Vector = VectorOf<T>;
  using Limits = std::numeric_limits<T>;
  const Vector sizes = std::bit_cast<Vector>(size), logs = std::bit_cast<Vector>(pabs(log));
  const MaskOf<T> usual = (logs < Vector{} + PowerTables<T>::kMostLog) &
                          (sizes >= Vector{} + Limits::min()) & (sizes <= Vector{} + Limits::max());
  return bits_of<T>(~usual);
}

/// `power` takes the results of doubles in these lanes.
[[gnu::noinline]] inline void replace_by_doubles(const float* x, const float* y,
                                                 PacketOf<float>& power, std::uint32_t lanes) {
  constexpr std::size_t kWidth = Eigen::internal::packet_traits<float>::size;
  float by_doubles[kWidth];
  powers_by_doubles(x, y, by_doubles);
  powers_by_doubles(x + kWidth / 2, y + kWidth / 2, by_doubles + kWidth / 2);
  replace_lanes<float>(power, lanes, [&](std::size_t i) { return by_doubles[i]; });
}

/// to[i] = x[i]^y[i] for a packet; `to` may equal either. Off by 0.6 of a last digit; powers beyond
/// exp(+-8) by 1.2, of doubles by 2. Results that T can hold are exact.
template <typename T>
EIGEN_ALWAYS_INLINE void powers(const T* x, const T* y, T* to) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet base = ploadu<Packet>(x), exponent = ploadu<Packet>(y), size = pabs(base);
  const NumberPair<T> log = log_in_pair<T>(size);
  const Packet high = pmul(exponent, log.high);
  const Packet low = pmadd(exponent, log.low, pmadd(exponent, log.high, -high));
  Packet power = with_sign_of_power<T>(base, exponent, exp_of_pair<T>({high, low}));
  const std::uint32_t unusual = unusual_lanes<T>(size, high);
  if (unusual != 0) [[unlikely]] {
    Packet lanes = power;  // arguments of a call are in memory
    if constexpr (sizeof(T) == sizeof(float)) {
      replace_by_doubles(x, y, lanes, unusual);
    } else {
      replace_lanes_by<element::Pow>(x, y, lanes, unusual);
    }
    power = lanes;
  }
  pstoreu(to, power);
}
#else
/// to[i] = x[i]^y[i] for a packet; `to` may equal either.
inline void powers(const float* x, const float* y, float* to) {
  constexpr std::size_t kHalf = Eigen::internal::packet_traits<double>::size;
  static_assert(2 * kHalf == Eigen::internal::packet_traits<float>::size);
  powers_by_doubles(x, y, to);
  powers_by_doubles(x + kHalf, y + kHalf, to + kHalf);
}
#endif

}  // namespace shardlab
