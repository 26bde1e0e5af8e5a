// Activations and their gradients.
#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

constexpr unsigned kNoComplex = kIntegerKind | kRealKind;

using element::GeluTanhBackward;
using element::kSqrtHalf;
using element::kSqrtTwoOverPi;
using element::kTanhCubic;
using element::LeakyRelu;
using element::LeakyReluBackward;
using element::Relu;
using element::SigmoidBackward;
using element::SiluBackward;
using element::Softplus;
using element::SoftplusBackward;
using element::TanhBackward;
using element::ThresholdBackward;

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

struct Gelu : element::Gelu {
  static void map(const float* from, float* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<float>& x) {
      return Eigen::internal::pmul(x, packet_normal_cdf(x));
    });
  }
};

struct GeluTanh : element::GeluTanh {
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

struct GeluBackward : element::GeluBackward {
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
