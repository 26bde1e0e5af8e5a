// packet_arcs.h - asin, acos, atan of each number in a packet: by parts near 0, and from there on
// of another number near 0.
#pragma once

#include "kernels/packet_parts.h"

namespace shardlab {

/// atan from 0 to 1 and asin from 0 to 1/2, through their values at Chebyshev's points.
template <typename T>
struct AtanParts;
template <typename T>
struct AsinParts;
template <>
struct AtanParts<float> {
  static constexpr float kLength = 0.140625f;
  static constexpr float kCoefficients[6][8] = {
      {0.19714874f, 0.145287111f, 0.0331155993f, -0.0542323813f, -0.0837942138f, -0.0729342699f,
       -0.0487962104f, -0.0270646848f},
      {0.00023106212f, 0.126596645f, 0.190031692f, 0.179588094f, 0.128006667f, 0.0714737028f,
       0.0285163615f, 0.00219231704f},
      {-0.333339751f, -0.295666903f, -0.202322394f, -0.0950423926f, -0.00742082065f, 0.0482586883f,
       0.0754593313f, 0.0832708105f},
      {5.89649467e-08f, -0.135222316f, -0.24152641f, -0.304023862f, -0.324595541f, -0.314853221f,
       -0.287905842f, -0.253905565f},
      {1.0f, 0.980608106f, 0.926696837f, 0.848911941f, 0.759643912f, 0.669171691f, 0.584141493f,
       0.507873535f},
      {0, 0.139708877f, 0.274167448f, 0.399220765f, 0.512389481f, 0.612820208f, 0.700854421f,
       0.777524292f},
  };
};
template <>
struct AtanParts<double> {
  static constexpr double kLength = 0.140625;
  static constexpr double kCoefficients[12][8] = {
      {-0.0844991734927462, -0.00301480410678862, 0.05870500715860139, 0.011828107240219812,
       -0.01581601897472269, -0.008959779293656371, -0.000713739820774907, 0.0013973569119110757},
      {-0.001418739142944974, -0.08822338675146117, -0.026720602625503072, 0.032680627073294485,
       0.02315124090470964, 0.002168191979812999, -0.004470205802677169, -0.0033663648560539956},
      {0.11126099893841558, 0.03136850114563573, -0.06162514383320792, -0.047842456017237134,
       -0.0032487726167269443, 0.01311207892491929, 0.009884763858293158, 0.003979610738387643},
      {-9.327215323168665e-06, 0.10391223187122446, 0.07489161533305558, -0.00338287705268442,
       -0.0340391154195091, -0.024613236306877742, -0.00911031546550392, -0.0005235186054242458},
      {-0.14285677870805857, -0.0745290466610877, 0.03736037179176789, 0.07572252259291067,
       0.04926176858446343, 0.014363299074076128, -0.004186837877847896, -0.008896595569781998},
      {-9.014320531974935e-09, -0.11684284345642763, -0.13227107613507633, -0.06922208150353566,
       -0.004910004155419164, 0.025476334740773, 0.029037075470671622, 0.021808743517127943},
      {0.20000000013802252, 0.1458385027632347, 0.03284107196163497, -0.05479195160149926,
       -0.08415939044964438, -0.07304132625800837, -0.04876556844547321, -0.026998874547012306},
      {-1.2262681419705095e-12, 0.12745885942708454, 0.19100950613578535, 0.18010156214260511,
       0.12804448211019673, 0.07128578962217261, 0.02830140572325979, 0.002030610621062888},
      {-0.33333333333332776, -0.2956679324910755, -0.20232188302839124, -0.0950413543814334,
       -0.007420143864050904, 0.04825888649081245, 0.07545927443534438, 0.08327069009776816},
      {-9.818150693947391e-18, -0.13522390733847386, -0.24152822423783374, -0.3040248275121512,
       -0.3245956202837044, -0.31485288473017836, -0.28790543730916474, -0.25390527752463804},
      {1.0, 0.9806080919320086, 0.9266968325791856, 0.8489119170984456, 0.7596439169139466,
       0.6691717039699395, 0.5841414717626925, 0.5078735275883447},
      {0, 0.13970887428916365, 0.2741674511196588, 0.39922076957525254, 0.5123894603107377,
       0.6128202021652414, 0.7008544078844502, 0.7775243103733478},
  };
};
template <>
struct AsinParts<float> {
  static constexpr float kLength = 0.0703125f;
  static constexpr float kCoefficients[5][8] = {
      {0.0052797487f, 0.0269523617f, 0.057378266f, 0.0956600532f, 0.148409784f, 0.226911321f,
       0.352308899f, 0.567865193f},
      {0.166550592f, 0.170536324f, 0.182276651f, 0.203565016f, 0.237471551f, 0.289508849f,
       0.369584978f, 0.496259689f},
      {8.16333795e-07f, 0.03541857f, 0.0724509358f, 0.112920791f, 0.15912731f, 0.214247555f,
       0.2830275f, 0.373086691f},
      {1.0f, 1.0024811f, 1.01003671f, 1.02301836f, 1.04206324f, 1.06818831f, 1.10295641f,
       1.14877892f},
      {0, 0.0703705624f, 0.141092658f, 0.212533936f, 0.285096437f, 0.359239638f, 0.435512364f,
       0.514600933f},
  };
};
template <>
struct AsinParts<double> {
  static constexpr double kLength = 0.0703125;
  static constexpr double kCoefficients[11][8] = {
      {0.00395623898890189, 0.019164636780661548, 0.05116328218670389, 0.12155404966345178,
       0.29941409877538233, 0.8003817834362665, 2.389229520058203, 8.217909944629604},
      {0.03008551494079458, 0.03687767824752448, 0.06035030912408864, 0.11759589818414252,
       0.2557010814725687, 0.6115024637114866, 1.6240463136865884, 4.904344531035739},
      {1.2281525642638618e-05, 0.020548339011119788, 0.05004967664340185, 0.10358223796912515,
       0.2147126792919572, 0.46949694924736857, 1.1149361927575125, 2.954873281279588},
      {0.04464254984024613, 0.050234166576400924, 0.06940385030734897, 0.11094321490555421,
       0.19644799432878193, 0.37857996025888946, 0.7950547140672433, 1.8460397955435377},
      {4.757138576340188e-09, 0.022877815731930054, 0.05164479853214011, 0.09480395499062375,
       0.16791709661963317, 0.303633662372297, 0.5778307518555714, 1.186294746693149},
      {0.07499999995517966, 0.07972968527520495, 0.09511995815846917, 0.12529845868822334,
       0.17925044500807946, 0.27560199954547016, 0.4544291833165746, 0.8086831875977979},
      {2.425029289955625e-13, 0.026916976909140567, 0.057298380376270074, 0.09551338598350174,
       0.1481499559603915, 0.22644132109040566, 0.3514140371650393, 0.5660267426081518},
      {0.166666666666666, 0.17041305305789603, 0.1821295668086367, 0.20337122926840787,
       0.23719424180339355, 0.28908233823642643, 0.36888139875645526, 0.495006763535807},
      {7.098202442477267e-19, 0.03541858120357841, 0.07245095881977093, 0.11292083992915157,
       0.15912738697725626, 0.21424769792017628, 0.283027765009285, 0.3730872497165628},
      {1.0, 1.0024811273644771, 1.0100368043797927, 1.0230183733164744, 1.042063374441338,
       1.0681884355679898, 1.1029565796137293, 1.1487793167735914},
      {0, 0.07037056498670617, 0.1410926594558939, 0.21253394040374687, 0.2850964402527462,
       0.35923962611183097, 0.43551237106443375, 0.5146009275773826},
  };
};

/// A right angle in two numbers, the first of which is the nearest T.
template <typename T>
struct RightAngle {
  static constexpr T kHigh = T(1.57079632679489661923), kLow = T(6.12323399573676603587e-17);
};
template <>
struct RightAngle<float> {
  static constexpr float kHigh = 1.57079637f, kLow = -4.37113883e-8f;
};

/// So many right angles less a part.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> right_angles_less(T angles, const PacketOf<T>& part) {
  using namespace Eigen::internal;
  const auto number = [](T value) { return pset1<PacketOf<T>>(value); };
  return padd(psub(number(angles * RightAngle<T>::kHigh), part),
              number(angles * RightAngle<T>::kLow));
}

/// atan(y / x) of sizes: that of the smaller one through the larger one, or the rest to a right
/// angle. Of two zeros 0, of two infinities half a right angle.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_angle(const PacketOf<T>& y, const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  const Packet less = where_less<T>(x, y, x, y), more = where_less<T>(x, y, y, x);
  Packet ratio = pdiv(less, more);
  ratio = where_equal<T>(less, more, number(1), ratio);
  ratio = where_equal<T>(less, number(0), number(0), ratio);
  Packet angle[1] = {ratio};
  packets_by_parts<AtanParts<T>, T>(angle);
  return where_less<T>(x, y, right_angles_less<T>(1, angle[0]), angle[0]);
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_atan(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> angle = packet_angle<T>(pabs(x), pset1<PacketOf<T>>(1));
  return where_equal<T>(x, x, with_sign_of<T>(x, angle), x);
}

/// Beyond a right angle where x has a minus, be it that of a zero.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_atan2(const PacketOf<T>& y, const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  const Packet angle = packet_angle<T>(pabs(y), pabs(x));
  const Packet beyond = right_angles_less<T>(2, angle);
  const Packet sign = with_sign_of<T>(x, number(1));
  const Packet value = with_sign_of<T>(y, where_less<T>(sign, number(0), beyond, angle));
  return where_equal<T>(x, x, where_equal<T>(y, y, value, y), x);
}

/// asin(|x|) up to 1/2; beyond it that of the root of half of the rest to 1, which is half of the
/// rest to a right angle. NaN beyond 1.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_small_arc(const PacketOf<T>& size) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet half = pset1<Packet>(T(0.5));
  const Packet root = packet_sqrt<T>(pmul(psub(pset1<Packet>(1), size), half));
  const Packet sine = where_less<T>(half, size, root, size);
  Packet arc[1] = {sine};
  packets_by_parts<AsinParts<T>, T>(arc);
  return where_equal<T>(sine, sine, arc[0], sine);
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_asin(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet size = pabs(x), arc = packet_small_arc<T>(size);
  const Packet beyond = right_angles_less<T>(1, padd(arc, arc));
  return with_sign_of<T>(x, where_less<T>(pset1<Packet>(T(0.5)), size, beyond, arc));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_acos(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  const Packet size = pabs(x), arc = packet_small_arc<T>(size), twice = padd(arc, arc);
  const Packet near = right_angles_less<T>(1, with_sign_of<T>(x, arc));
  const Packet far = where_less<T>(x, number(0), right_angles_less<T>(2, twice), twice);
  return where_less<T>(number(T(0.5)), size, far, near);
}

}  // namespace shardlab
