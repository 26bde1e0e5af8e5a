// packet_activations.h - activations and their gradients of each number in a packet.
#pragma once

#include <iterator>

#include "kernels/packet_lookup.h"

namespace shardlab {

// The normal distribution of each number in a packet, and with it erf: by parts,
// without the divisions and powers of the usual quotients.

// Functions of sizes by a polynomial in each of eight parts of equal length, whose
// coefficients are looked up: few terms, and no division.

/// |x|, at most `end`; of NaN some number up to it, or NaN.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> size_within(const PacketOf<T>& x, T end) {
  using namespace Eigen::internal;
  const PacketOf<T> most = pset1<PacketOf<T>>(end);
  return pmin(pabs(x), most);
}

/// A function of |x| at most 7.49 parts; of NaN anything. `Parts` has the length of a part and
/// coefficients: c[0] h^n + ... + c[n] around the middle k * kLength of part k, h = |x| - k *
/// kLength, those of each part in a column. Without a constant in part 0 small results keep their
/// digits.
template <typename Parts, typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_by_parts(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  constexpr auto& kTable = Parts::kCoefficients;
  constexpr std::size_t kTerms = std::size(kTable);
  constexpr T kEnd = T(7.49) * Parts::kLength;  // in the last part for sure
  const Packet shift = pset1<Packet>(kWholeShift<T>), size = size_within(x, kEnd);
  const Packet shifted = pmadd(size, pset1<Packet>(1 / Parts::kLength), shift);
  const auto part = std::bit_cast<BitsOf<T>>(shifted);
  const Packet h = pmadd(psub(shifted, shift), pset1<Packet>(-Parts::kLength), size);
  Packet sum = looked_up(kTable[0], part);
#pragma GCC unroll 16
  for (std::size_t term = 1; term < kTerms; ++term) {
    sum = pmadd(sum, h, looked_up(kTable[term], part));
  }
  return sum;
}

/// P(0 <= X <= x) of a normal number X, through its values at Chebyshev's points. The constant of
/// the last part is rounded up, so that everything behind it is 1/2 in T.
template <typename T>
struct NormalParts;
template <>
struct NormalParts<float> {
  static constexpr float kLength = 0.75f;
  static constexpr float kCoefficients[7][8] = {
      {-0.00128497137f, -0.00296874088f, 0.000615456142f, 0.000983386766f, -0.000100170801f,
       -0.000132409783f, -2.29855359e-05f, -1.60719571e-06f},
      {0.01050545f, -6.50350412e-05f, -0.00573260058f, -0.000525289855f, 0.00108692225f,
       0.000349272275f, 4.12402769e-05f, 2.27898454e-06f},
      {-0.000102330472f, 0.0229332093f, 0.00607409049f, -0.00613658642f, -0.0033246316f,
       -0.000609471695f, -5.16445543e-05f, -2.21083383e-06f},
      {-0.0664814413f, -0.0219636522f, 0.0269732811f, 0.0214948207f, 0.0059106159f, 0.000767118472f,
       5.11115577e-05f, 1.81181383e-06f},
      {-2.86459425e-07f, -0.112926446f, -0.0971382484f, -0.0357071199f, -0.00664775958f,
       -0.000661116792f, -3.59643454e-05f, -1.08385416e-06f},
      {0.398942292f, 0.301137537f, 0.129517764f, 0.0317395739f, 0.00443182234f, 0.000352604664f,
       1.5986725e-05f, 4.13127367e-07f},
      {0, 0.27337265f, 0.43319279f, 0.487775534f, 0.498650104f, 0.499911577f, 0.499996603f,
       0.49999994f},
  };
};
template <>
struct NormalParts<double> {
  static constexpr double kLength = 1.125;
  static constexpr double kCoefficients[16][8] = {
      {-2.140419564032269e-08, 1.2609336111827742e-08, 5.8893242334574885e-09,
       -2.369222465481256e-09, 2.695188166214524e-10, -1.7150199193396803e-11,
       6.701615418188936e-13, 6.0416386942443465e-15},
      {-4.8933757382511276e-08, 9.388761439776961e-08, -4.4422122727236646e-08,
       6.1378674813522455e-09, -3.828986734257313e-10, 3.553765236520663e-11,
       -2.938137856235924e-12, -1.6486041982072732e-14},
      {7.270367390656607e-07, -3.328099088715372e-07, 6.492331495443462e-09, 1.8713537492173205e-08,
       -2.8407845998809873e-09, 8.467004971090652e-11, 9.656135067305467e-12,
       3.2890356651735894e-14},
      {-4.8011891537475745e-08, -1.1405782203362025e-06, 6.917601721624508e-07,
       -1.5878622424006144e-07, 1.86291325799244e-08, -9.78979342713455e-10,
       -2.8186558128333982e-11, -6.914603599246063e-14},
      {-9.418913558896809e-06, 6.127271273670969e-06, -1.7876887489210976e-06,
       3.1794191918192264e-07, -5.098709125218345e-08, 4.7941519590908616e-09,
       7.108072518799676e-11, 1.3327787919269585e-13},
      {-9.749264575576836e-09, 7.527872008245078e-06, -4.721855265608035e-06, 9.143958401878574e-07,
       6.941471086954936e-09, -1.6775294139659538e-08, -1.5475477336162774e-10,
       -2.2454014202908398e-13},
      {0.00011543733029377799, -8.430068427855042e-05, 3.365374440024283e-05,
       -7.314629307326184e-06, 5.884200425513854e-07, 4.625393273720462e-08, 2.9176628012715983e-10,
       3.339931775547567e-13},
      {-5.119127215502603e-10, 2.1991992350940208e-05, -3.206171086428899e-05,
       1.7486059804622217e-05, -3.0570730525206877e-06, -1.0397084636952729e-07,
       -4.748274689530902e-10, -4.3682640121514024e-13},
      {-0.0011873281456426913, 0.0008388176188365962, -0.0002637083685703948, 7.789914913341163e-06,
       9.669776857104255e-06, 1.9262871479826732e-07, 6.619504463748296e-10, 4.963857021259119e-13},
      {-6.5174931403595195e-12, -0.0013062051801505795, 0.0009914766766188077,
       -0.00019387604936720666, -2.2233633738071063e-05, -2.937323303848477e-07,
       -7.811098233734458e-10, -4.830140057834284e-13},
      {0.009973557010432085, -0.005282691027771595, -0.00046183673076560485, 0.000719762717672796,
       3.8835495970724393e-05, 3.646120750525459e-07, 7.666040677391495e-10, 3.948136023595982e-13},
      {-1.448875084693525e-14, 0.017225323009148544, -0.0061371592418076005, -0.0015824285926826895,
       -5.1697412638207386e-05, -3.606861129424635e-07, -6.098998882551084e-10,
       -2.638725803371006e-13},
      {-0.06649038006690516, 0.00937995567236136, 0.021490389263732448, 0.0023225105491436185,
       5.128116938465445e-05, 2.743986778059452e-07, 3.7840528799440563e-10,
       1.3857280794005733e-13},
      {-2.0897004223520273e-18, -0.1191806132488389, -0.03570710831512365, -0.002263138099014831,
       -3.596341749060417e-05, -1.511221682923357e-07, -1.7195415624955967e-10,
       -5.365482564253991e-14},
      {0.3989422804014327, 0.21187664577569945, 0.03173965183566742, 0.0013411188734903773,
       1.5983741106905475e-05, 5.3732326505692645e-08, 5.0949379588413474e-11,
       1.3626621757986152e-14},
      {0, 0.36970548286319116, 0.4877755273449553, 0.4996309215457249, 0.49999660232687526,
       0.4999999907246013, 0.49999999999260775, 0.49999999999999833},
  };
};

/// P(X <= x) - 1/2; of NaN anything.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_normal_beyond_half(const PacketOf<T>& x) {
  return with_sign_of<T>(x, packet_by_parts<NormalParts<T>, T>(x));
}

/// erf(x) is twice that of sqrt(2) x.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_erf(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> root = pset1<PacketOf<T>>(T(2 * element::kSqrtHalf));
  const PacketOf<T> half = packet_normal_beyond_half<T>(pmul(x, root));
  return where_equal<T>(x, x, padd(half, half), x);
}

/// P(X <= x); of NaN anything.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_normal_cdf(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  return padd(packet_normal_beyond_half<T>(x), pset1<PacketOf<T>>(T(0.5)));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_silu(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  return pdiv(x, padd(pset1<PacketOf<T>>(1), packet_exp<T>(pnegate(x))));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_silu_backward(const PacketOf<T>& g, const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> one = pset1<PacketOf<T>>(1), sigmoid = packet_sigmoid<T>(x);
  return pmul(pmul(g, sigmoid), padd(one, pmul(x, psub(one, sigmoid))));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu(const PacketOf<T>& x) {
  return Eigen::internal::pmul(x, packet_normal_cdf<T>(x));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_backward(const PacketOf<T>& g, const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet power = packet_exp<T>(pmul(pmul(x, x), pset1<Packet>(T(-0.5))));
  const Packet density = pmul(power, pset1<Packet>(T(element::kSqrtTwoOverPi / 2)));
  return pmul(g, padd(packet_normal_cdf<T>(x), pmul(x, density)));
}

/// Terms of GeluTanh that are added to and multiplied inside tanh.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_inner(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet cube = pmul(pmul(x, x), pmul(x, pset1<Packet>(T(element::kTanhCubic))));
  return pmul(pset1<Packet>(T(element::kSqrtTwoOverPi)), padd(x, cube));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_tanh(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> half = pmul(pset1<PacketOf<T>>(T(0.5)), x);
  return pmul(half, padd(pset1<PacketOf<T>>(1), packet_tanh(packet_gelu_inner<T>(x))));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_tanh_backward(const PacketOf<T>& g,
                                                          const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet one = pset1<Packet>(1), half = pset1<Packet>(T(0.5));
  const Packet tanh = packet_tanh(packet_gelu_inner<T>(x));
  const Packet cubic = pmul(pset1<Packet>(T(3 * element::kTanhCubic)), pmul(x, x));
  const Packet slope = pmul(pset1<Packet>(T(element::kSqrtTwoOverPi)), padd(one, cubic));
  const Packet bend = pmul(pmul(pmul(half, x), psub(one, pmul(tanh, tanh))), slope);
  return pmul(g, padd(pmul(half, padd(one, tanh)), bend));
}

}  // namespace shardlab
