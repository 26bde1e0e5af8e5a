// pointwise.h - launches of pointwise functors. Platform::for_each(count, body) runs body(i) for
// all i in [0, count), in any order; it is a GPU or, in tests, a loop.
#pragma once

#include "backends/cuda/elements.h"

namespace shardlab::cuda {

/// Types that a functor takes.
enum Kinds : unsigned { kInteger = 1, kReal = 2, kBoth = 3 };

struct Identity {
  template <typename T>
  SHARDLAB_HD static T apply(T a) {
    return a;
  }
};

template <typename F, typename T, int N>
struct PointwiseBody {
  PointwiseCall call;

  SHARDLAB_HD T operand(int k, std::int64_t at) const {
    const Place& place = call.in[k];
    const T value =
        place.data == nullptr ? number_of<T>(place) : load<T>(place.data, place.dtype, at);
    const bool exact =
        place.data != nullptr && (place.dtype == call.rounded || place.dtype == DType::kBool);
    return exact ? value : rounded_to(call.rounded, value);
  }

  SHARDLAB_HD void operator()(std::int64_t i) const {
    if constexpr (N == 1) {
      const Place* const places[2] = {&call.out, &call.in[0]};
      const auto offsets = offsets_of(call.shape, places, i);
      put(offsets.at[0], F::apply(operand(0, offsets.at[1])));
    } else if constexpr (N == 2) {
      const Place* const places[3] = {&call.out, &call.in[0], &call.in[1]};
      const auto offsets = offsets_of(call.shape, places, i);
      put(offsets.at[0], F::apply(operand(0, offsets.at[1]), operand(1, offsets.at[2])));
    } else if constexpr (N == 3) {
      const Place* const places[4] = {&call.out, &call.in[0], &call.in[1], &call.in[2]};
      const auto offsets = offsets_of(call.shape, places, i);
      const T first = operand(0, offsets.at[1]);
      const T second = operand(1, offsets.at[2]);
      const T third = operand(2, offsets.at[3]);
      if constexpr (std::is_same_v<F, Where>)
        put(offsets.at[0], F::apply(first != T(0), second, third));
      else
        put(offsets.at[0], F::apply(first, second, third));
    } else {
      const Place* const places[5] = {&call.out, &call.in[0], &call.in[1], &call.in[2],
                                      &call.in[3]};
      const auto offsets = offsets_of(call.shape, places, i);
      put(offsets.at[0], F::apply(operand(0, offsets.at[1]), operand(1, offsets.at[2]),
                                  operand(2, offsets.at[3]), operand(3, offsets.at[4])));
    }
  }

 private:
  template <typename Value>
  SHARDLAB_HD void put(std::int64_t at, Value value) const {
    if constexpr (std::is_same_v<Value, bool>)
      store<std::int64_t>(call.out.data, call.out.dtype, at, value ? 1 : 0);
    else
      store<Value>(call.out.data, call.out.dtype, at, value);
  }
};

template <typename F, int N, unsigned kinds, typename Platform>
Failure launch(Platform& platform, const PointwiseCall& call) {
  switch (call.compute) {
    case DType::kI64:
      if constexpr ((kinds & kInteger) != 0) {
        return platform.for_each(call.shape.count, PointwiseBody<F, std::int64_t, N>{call});
      }
      break;
    case DType::kF32:
      if constexpr ((kinds & kReal) != 0) {
        return platform.for_each(call.shape.count, PointwiseBody<F, float, N>{call});
      }
      break;
    case DType::kF64:
      if constexpr ((kinds & kReal) != 0) {
        return platform.for_each(call.shape.count, PointwiseBody<F, double, N>{call});
      }
      break;
    default:
      break;
  }
  return "this pointwise function does not take the dtype";
}

// Elementary functions and activations.
template <typename Platform>
Failure run_elementary(Platform& p, const PointwiseCall& call) {
  switch (call.op) {
    case Element::kExp:
      return launch<element::Exp, 1, kReal>(p, call);
    case Element::kExp2:
      return launch<element::Exp2, 1, kReal>(p, call);
    case Element::kExpm1:
      return launch<element::Expm1, 1, kReal>(p, call);
    case Element::kLog:
      return launch<element::Log, 1, kReal>(p, call);
    case Element::kLog2:
      return launch<element::Log2, 1, kReal>(p, call);
    case Element::kLog10:
      return launch<element::Log10, 1, kReal>(p, call);
    case Element::kLog1p:
      return launch<element::Log1p, 1, kReal>(p, call);
    case Element::kSqrt:
      return launch<element::Sqrt, 1, kReal>(p, call);
    case Element::kRsqrt:
      return launch<element::Rsqrt, 1, kReal>(p, call);
    case Element::kSin:
      return launch<element::Sin, 1, kReal>(p, call);
    case Element::kCos:
      return launch<element::Cos, 1, kReal>(p, call);
    case Element::kTan:
      return launch<element::Tan, 1, kReal>(p, call);
    case Element::kAsin:
      return launch<element::Asin, 1, kReal>(p, call);
    case Element::kAcos:
      return launch<element::Acos, 1, kReal>(p, call);
    case Element::kAtan:
      return launch<element::Atan, 1, kReal>(p, call);
    case Element::kSinh:
      return launch<element::Sinh, 1, kReal>(p, call);
    case Element::kCosh:
      return launch<element::Cosh, 1, kReal>(p, call);
    case Element::kTanh:
      return launch<element::Tanh, 1, kReal>(p, call);
    case Element::kErf:
      return launch<element::Erf, 1, kReal>(p, call);
    case Element::kErfc:
      return launch<element::Erfc, 1, kReal>(p, call);
    case Element::kSigmoid:
      return launch<element::Sigmoid, 1, kReal>(p, call);
    case Element::kRelu:
      return launch<element::Relu, 1, kBoth>(p, call);
    case Element::kGelu:
      return launch<element::Gelu, 1, kReal>(p, call);
    case Element::kGeluTanh:
      return launch<element::GeluTanh, 1, kReal>(p, call);
    case Element::kSilu:
      return launch<element::Silu, 1, kReal>(p, call);
    default:
      return "no pointwise function of one operand";
  }
}

template <typename Platform>
Failure run_one_operand(Platform& p, const PointwiseCall& call) {
  switch (call.op) {
    case Element::kIdentity:
      return launch<Identity, 1, kBoth>(p, call);
    case Element::kNeg:
      return launch<Neg, 1, kBoth>(p, call);
    case Element::kAbs:
      return launch<Abs, 1, kBoth>(p, call);
    case Element::kSign:
      return launch<Sign, 1, kBoth>(p, call);
    case Element::kSgn:
      return launch<Sgn, 1, kBoth>(p, call);
    case Element::kSquare:
      return launch<Square, 1, kBoth>(p, call);
    case Element::kReciprocal:
      return launch<Reciprocal, 1, kReal>(p, call);
    case Element::kFloor:
      return launch<Floor, 1, kBoth>(p, call);
    case Element::kCeil:
      return launch<Ceil, 1, kBoth>(p, call);
    case Element::kRound:
      return launch<Round, 1, kBoth>(p, call);
    case Element::kTrunc:
      return launch<Trunc, 1, kBoth>(p, call);
    case Element::kFrac:
      return launch<Frac, 1, kReal>(p, call);
    case Element::kIsNan:
      return launch<IsNan, 1, kBoth>(p, call);
    case Element::kIsInf:
      return launch<IsInf, 1, kBoth>(p, call);
    case Element::kIsFinite:
      return launch<IsFinite, 1, kBoth>(p, call);
    case Element::kSignbit:
      return launch<Signbit, 1, kBoth>(p, call);
    case Element::kLogicalNot:
      return launch<LogicalNot, 1, kBoth>(p, call);
    case Element::kBitwiseNot:
      return launch<BitwiseNot, 1, kInteger>(p, call);
    default:
      return run_elementary(p, call);
  }
}

// Comparisons, logic, bits, gradients of activations.
template <typename Platform>
Failure run_comparison(Platform& p, const PointwiseCall& call) {
  switch (call.op) {
    case Element::kEq:
      return launch<Eq, 2, kBoth>(p, call);
    case Element::kNe:
      return launch<Ne, 2, kBoth>(p, call);
    case Element::kLt:
      return launch<Lt, 2, kBoth>(p, call);
    case Element::kLe:
      return launch<Le, 2, kBoth>(p, call);
    case Element::kGt:
      return launch<Gt, 2, kBoth>(p, call);
    case Element::kGe:
      return launch<Ge, 2, kBoth>(p, call);
    case Element::kLogicalAnd:
      return launch<LogicalAnd, 2, kBoth>(p, call);
    case Element::kLogicalOr:
      return launch<LogicalOr, 2, kBoth>(p, call);
    case Element::kLogicalXor:
      return launch<LogicalXor, 2, kBoth>(p, call);
    case Element::kLeftShift:
      return launch<LeftShift, 2, kInteger>(p, call);
    case Element::kRightShift:
      return launch<RightShift, 2, kInteger>(p, call);
    case Element::kBitwiseAnd:
      return launch<BitwiseAnd, 2, kInteger>(p, call);
    case Element::kBitwiseOr:
      return launch<BitwiseOr, 2, kInteger>(p, call);
    case Element::kBitwiseXor:
      return launch<BitwiseXor, 2, kInteger>(p, call);
    case Element::kLeakyRelu:
      return launch<element::LeakyRelu, 2, kReal>(p, call);
    case Element::kGeluBackward:
      return launch<element::GeluBackward, 2, kReal>(p, call);
    case Element::kGeluTanhBackward:
      return launch<element::GeluTanhBackward, 2, kReal>(p, call);
    case Element::kSiluBackward:
      return launch<element::SiluBackward, 2, kReal>(p, call);
    case Element::kTanhBackward:
      return launch<element::TanhBackward, 2, kReal>(p, call);
    case Element::kSigmoidBackward:
      return launch<element::SigmoidBackward, 2, kReal>(p, call);
    default:
      return "no pointwise function of two operands";
  }
}

template <typename Platform>
Failure run_two_operands(Platform& p, const PointwiseCall& call) {
  switch (call.op) {
    case Element::kAdd:
      return launch<Add, 2, kBoth>(p, call);
    case Element::kSub:
      return launch<Sub, 2, kBoth>(p, call);
    case Element::kMul:
      return launch<Mul, 2, kBoth>(p, call);
    case Element::kDiv:
      return launch<Div, 2, kReal>(p, call);
    case Element::kDivFloor:
      return launch<DivFloor, 2, kBoth>(p, call);
    case Element::kDivTrunc:
      return launch<DivTrunc, 2, kBoth>(p, call);
    case Element::kRemainder:
      return launch<Remainder, 2, kBoth>(p, call);
    case Element::kFmod:
      return launch<Fmod, 2, kBoth>(p, call);
    case Element::kPow:
      return launch<Pow, 2, kBoth>(p, call);
    case Element::kMaximum:
      return launch<Maximum, 2, kBoth>(p, call);
    case Element::kMinimum:
      return launch<Minimum, 2, kBoth>(p, call);
    case Element::kAtan2:
      return launch<Atan2, 2, kReal>(p, call);
    default:
      return run_comparison(p, call);
  }
}

template <typename Platform>
Failure run_more_operands(Platform& p, const PointwiseCall& call) {
  switch (call.op) {
    case Element::kAddScaled:
      return launch<AddScaled, 3, kBoth>(p, call);
    case Element::kSubScaled:
      return launch<SubScaled, 3, kBoth>(p, call);
    case Element::kRsubScaled:
      return launch<RsubScaled, 3, kBoth>(p, call);
    case Element::kClamp:
      return launch<Clamp, 3, kBoth>(p, call);
    case Element::kWhere:
      return launch<Where, 3, kBoth>(p, call);
    case Element::kLerp:
      return launch<Lerp, 3, kReal>(p, call);
    case Element::kSoftplus:
      return launch<element::Softplus, 3, kReal>(p, call);
    case Element::kThresholdBackward:
      return launch<element::ThresholdBackward, 3, kBoth>(p, call);
    case Element::kLeakyReluBackward:
      return launch<element::LeakyReluBackward, 3, kReal>(p, call);
    case Element::kAddcmul:
      return launch<Addcmul, 4, kBoth>(p, call);
    case Element::kAddcdiv:
      return launch<Addcdiv, 4, kReal>(p, call);
    case Element::kSoftplusBackward:
      return launch<element::SoftplusBackward, 4, kReal>(p, call);
    default:
      return "no pointwise function of three or four operands";
  }
}

}  // namespace shardlab::cuda
