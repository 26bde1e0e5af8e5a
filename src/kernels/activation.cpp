// Activations and their gradients.
#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

constexpr unsigned kNoComplex = kIntegerKind | kRealKind;

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kTanhCubic = 0.044715;

struct Relu {
  template <typename T>
  static T apply(T a) {
    return is_nan(a) || a > T(0) ? a : T(0);
  }
};

// erf of each lane; exactly +-1 where float cannot tell it from that, NaN stays.
PacketOf<float> packet_erf(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<float>;
  const Packet one = pset1<Packet>(1.0f);
  const Packet inner = generic_fast_erf_float(x);
  const Packet sign = pselect(pcmp_lt(x, pset1<Packet>(0.0f)), pnegate(one), one);
  const Packet ends = pselect(pcmp_lt(pabs(x), pset1<Packet>(4.0f)), inner, sign);
  return pselect(pcmp_eq(x, x), ends, x);
}

// The normal distribution function.
PacketOf<float> packet_normal_cdf(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<float>;
  const Packet erf = packet_erf(pmul(x, pset1<Packet>(float(kSqrtHalf))));
  return pmul(pset1<Packet>(0.5f), padd(pset1<Packet>(1.0f), erf));
}

struct Gelu {
  template <typename T>
  static T apply(T a) {
    return a * T(0.5) * (T(1) + std::erf(a * T(kSqrtHalf)));
  }
  static void map(const float* from, float* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<float>& x) {
      return Eigen::internal::pmul(x, packet_normal_cdf(x));
    });
  }
};

struct GeluTanh {
  template <typename T>
  static T inner(T a) {
    return T(kSqrtTwoOverPi) * (a + T(kTanhCubic) * a * a * a);
  }
  template <typename T>
  static T apply(T a) {
    return T(0.5) * a * (T(1) + std::tanh(inner(a)));
  }
  static void map(const float* from, float* to, std::int64_t count) {
    using namespace Eigen::internal;
    map_packets(from, to, count, [](const PacketOf<float>& x) {
      const auto cube = pmul(pmul(x, x), pmul(x, pset1<PacketOf<float>>(float(kTanhCubic))));
      const auto inner = pmul(pset1<PacketOf<float>>(float(kSqrtTwoOverPi)), padd(x, cube));
      const auto one = pset1<PacketOf<float>>(1.0f);
      return pmul(pmul(pset1<PacketOf<float>>(0.5f), x), padd(one, packet_tanh(inner)));
    });
  }
};

struct GeluBackward {
  template <typename T>
  static T apply(T grad, T a) {
    const T cdf = T(0.5) * (T(1) + std::erf(a * T(kSqrtHalf)));
    const T density = std::exp(a * a * T(-0.5)) * T(kSqrtTwoOverPi / 2);
    return grad * (cdf + a * density);
  }
  static void map(const float* grad, const float* from, float* to, std::int64_t count) {
    using namespace Eigen::internal;
    using Packet = PacketOf<float>;
    map_packet_pairs(grad, from, to, count, [](const Packet& g, const Packet& x) {
      const Packet power = packet_exp<float>(pmul(pmul(x, x), pset1<Packet>(-0.5f)));
      const Packet density = pmul(power, pset1<Packet>(float(kSqrtTwoOverPi / 2)));
      return pmul(g, padd(packet_normal_cdf(x), pmul(x, density)));
    });
  }
};

struct GeluTanhBackward {
  template <typename T>
  static T apply(T grad, T a) {
    const T tanh = std::tanh(GeluTanh::inner(a));
    const T slope = T(kSqrtTwoOverPi) * (T(1) + T(3 * kTanhCubic) * a * a);
    return grad * (T(0.5) * (T(1) + tanh) + T(0.5) * a * (T(1) - tanh * tanh) * slope);
  }
};

struct SiluBackward {
  template <typename T>
  static T apply(T grad, T a) {
    const T sigmoid = T(1) / (T(1) + std::exp(-a));
    return grad * sigmoid * (T(1) + a * (T(1) - sigmoid));
  }
};

struct TanhBackward {
  template <typename T>
  static T apply(T grad, T output) {
    if constexpr (Complex<T>)
      return grad * std::conj(T(1) - output * output);
    else
      return grad * (T(1) - output * output);
  }
};

struct SigmoidBackward {
  template <typename T>
  static T apply(T grad, T output) {
    if constexpr (Complex<T>)
      return grad * std::conj((T(1) - output) * output);
    else
      return grad * (T(1) - output) * output;
  }
};

struct ThresholdBackward {
  template <typename T>
  static T apply(T grad, T self, T threshold) {
    return self <= threshold ? T(0) : grad;
  }
};

struct Softplus {
  template <typename T>
  static T apply(T a, T beta, T threshold) {
    return a * beta > threshold ? a : std::log1p(std::exp(a * beta)) / beta;
  }
};
struct SoftplusBackward {
  template <typename T>
  static T apply(T grad, T a, T beta, T threshold) {
    const T power = std::exp(a * beta);
    return a * beta > threshold ? grad : grad * power / (power + T(1));
  }
};
struct LeakyRelu {
  template <typename T>
  static T apply(T a, T slope) {
    return a > T(0) ? a : a * slope;
  }
};
struct LeakyReluBackward {
  template <typename T>
  static T apply(T grad, T a, T slope) {
    return a > T(0) ? grad : grad * slope;
  }
};

bool approximates_with_tanh(const KernelCall& call, std::size_t index) {
  const std::string* text = optional_text_arg(call, index);
  if (text == nullptr || *text == "none") return false;
  if (*text == "tanh") return true;
  fail(ErrorKind::kValue, "approximate is 'none' or 'tanh', not '{}'", *text);
}

void gelu_kernel(const KernelCall& call) {
  if (approximates_with_tanh(call, 1)) return pointwise_kernel<GeluTanh, 1, kRealKind>(call);
  pointwise_kernel<Gelu, 1, kRealKind>(call);
}

void gelu_backward_kernel(const KernelCall& call) {
  if (approximates_with_tanh(call, 2)) {
    return pointwise_kernel<GeluTanhBackward, 2, kRealKind>(call);
  }
  pointwise_kernel<GeluBackward, 2, kRealKind>(call);
}

}  // namespace

void add_activation_kernels(KernelTable& table) {
  constexpr unsigned kFloatKinds = kRealKind | kComplexKind;
  table.set(KernelId::kRelu, pointwise_kernel<Relu, 1, kNoComplex>);
  table.set(KernelId::kGelu, gelu_kernel);
  table.set(KernelId::kGeluBackward, gelu_backward_kernel);
  table.set(KernelId::kSilu, pointwise_kernel<Silu, 1, kFloatKinds>);
  table.set(KernelId::kSiluBackward, pointwise_kernel<SiluBackward, 2, kFloatKinds>);
  table.set(KernelId::kTanhBackward, pointwise_kernel<TanhBackward, 2, kFloatKinds>);
  table.set(KernelId::kSigmoidBackward, pointwise_kernel<SigmoidBackward, 2, kFloatKinds>);
  table.set(KernelId::kThresholdBackward, pointwise_kernel<ThresholdBackward, 3, kNoComplex>);
  table.set(KernelId::kSoftplus, pointwise_kernel<Softplus, 3, kRealKind>);
  table.set(KernelId::kSoftplusBackward, pointwise_kernel<SoftplusBackward, 4, kRealKind>);
  table.set(KernelId::kLeakyRelu, pointwise_kernel<LeakyRelu, 2, kRealKind>);
  table.set(KernelId::kLeakyReluBackward, pointwise_kernel<LeakyReluBackward, 3, kRealKind>);
}

}  // namespace shardlab
