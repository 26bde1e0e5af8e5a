// element_functions.h - the one list of the functions that pointwise kernels apply to each element.
// Kernel ids, the loops of the CPU device, and the ids, loops and dtype checks of the CUDA device
// are made from it; the functions themselves are in functors.h and math_functors.h.
//
// A row: function, number of operands, compute types that it takes, and how a kernel of that name
// gets its operands (a template of pointwise.cpp). Light enough for device compilers.
#pragma once

#include <cstdint>

namespace shardlab {

/// The compute types that a function takes; the rest is Unsupported.
enum Kinds : unsigned {
  kIntegerKind = 1,
  kRealKind = 2,
  kComplexKind = 4,
  kNoComplex = kIntegerKind | kRealKind,
  kFloatKinds = kRealKind | kComplexKind,
  kAllKinds = kIntegerKind | kRealKind | kComplexKind,
};

// clang-format off

/// Functions that are a kernel by themselves. `promoted`: operands meet in their promoted dtype;
/// `floating`: the same, but integers and bool become f32 first.
#define SHARDLAB_ELEMENT_KERNELS(X)                  \
  /* One tensor. */                                  \
  X(Neg,                1, kAllKinds,    promoted)   \
  X(Abs,                1, kAllKinds,    promoted)   \
  X(Sign,               1, kNoComplex,   promoted)   \
  X(Sgn,                1, kAllKinds,    promoted)   \
  X(Square,             1, kAllKinds,    promoted)   \
  X(Reciprocal,         1, kFloatKinds,  floating)   \
  X(Floor,              1, kNoComplex,   promoted)   \
  X(Ceil,               1, kNoComplex,   promoted)   \
  X(Round,              1, kNoComplex,   promoted)   \
  X(Trunc,              1, kNoComplex,   promoted)   \
  X(Frac,               1, kRealKind,    promoted)   \
  X(Positive,           1, kAllKinds,    promoted)   \
  X(Exp,                1, kFloatKinds,  floating)   \
  X(Exp2,               1, kFloatKinds,  floating)   \
  X(Expm1,              1, kFloatKinds,  floating)   \
  X(Log,                1, kFloatKinds,  floating)   \
  X(Log2,               1, kFloatKinds,  floating)   \
  X(Log10,              1, kFloatKinds,  floating)   \
  X(Log1p,              1, kFloatKinds,  floating)   \
  X(Sqrt,               1, kFloatKinds,  floating)   \
  X(Rsqrt,              1, kFloatKinds,  floating)   \
  X(Sin,                1, kFloatKinds,  floating)   \
  X(Cos,                1, kFloatKinds,  floating)   \
  X(Tan,                1, kFloatKinds,  floating)   \
  X(Asin,               1, kFloatKinds,  floating)   \
  X(Acos,               1, kFloatKinds,  floating)   \
  X(Atan,               1, kFloatKinds,  floating)   \
  X(Asinh,              1, kFloatKinds,  floating)   \
  X(Sinh,               1, kFloatKinds,  floating)   \
  X(Cosh,               1, kFloatKinds,  floating)   \
  X(Tanh,               1, kFloatKinds,  floating)   \
  X(Erf,                1, kRealKind,    floating)   \
  X(Erfc,               1, kRealKind,    floating)   \
  X(Sigmoid,            1, kFloatKinds,  floating)   \
  X(Relu,               1, kNoComplex,   promoted)   \
  X(Silu,               1, kFloatKinds,  promoted)   \
  X(IsNan,              1, kAllKinds,    promoted)   \
  X(IsInf,              1, kAllKinds,    promoted)   \
  X(IsFinite,           1, kAllKinds,    promoted)   \
  X(Signbit,            1, kNoComplex,   promoted)   \
  X(LogicalNot,         1, kAllKinds,    promoted)   \
  /* Two operands. */                                \
  X(Mul,                2, kAllKinds,    promoted)   \
  X(Remainder,          2, kNoComplex,   division)   \
  X(Fmod,               2, kNoComplex,   division)   \
  X(Pow,                2, kAllKinds,    promoted)   \
  X(Maximum,            2, kNoComplex,   promoted)   \
  X(Minimum,            2, kNoComplex,   promoted)   \
  X(Atan2,              2, kRealKind,    floating)   \
  X(LeftShift,          2, kIntegerKind, promoted)   \
  X(RightShift,         2, kIntegerKind, promoted)   \
  X(Eq,                 2, kAllKinds,    promoted)   \
  X(Ne,                 2, kAllKinds,    promoted)   \
  X(Lt,                 2, kNoComplex,   promoted)   \
  X(Le,                 2, kNoComplex,   promoted)   \
  X(Gt,                 2, kNoComplex,   promoted)   \
  X(Ge,                 2, kNoComplex,   promoted)   \
  X(LogicalAnd,         2, kAllKinds,    promoted)   \
  X(LogicalOr,          2, kAllKinds,    promoted)   \
  X(LogicalXor,         2, kAllKinds,    promoted)   \
  X(BitwiseAnd,         2, kIntegerKind, promoted)   \
  X(BitwiseOr,          2, kIntegerKind, promoted)   \
  X(BitwiseXor,         2, kIntegerKind, promoted)   \
  X(LeakyRelu,          2, kRealKind,    promoted)   \
  X(SiluBackward,       2, kFloatKinds,  promoted)   \
  X(TanhBackward,       2, kFloatKinds,  promoted)   \
  X(SigmoidBackward,    2, kFloatKinds,  promoted)   \
  /* Special functions. */                            \
  X(Acosh,              1, kFloatKinds,  floating) \
  X(AiryAi,             1, kRealKind,    floating) \
  X(BesselJ0,           1, kRealKind,    floating) \
  X(BesselJ1,           1, kRealKind,    floating) \
  X(BesselY0,           1, kRealKind,    floating) \
  X(BesselY1,           1, kRealKind,    floating) \
  X(Digamma,            1, kRealKind,    floating) \
  X(Erfcx,              1, kRealKind,    floating) \
  X(Erfinv,             1, kRealKind,    floating) \
  X(I0,                 1, kRealKind,    floating) \
  X(I0e,                1, kRealKind,    floating) \
  X(I1,                 1, kRealKind,    floating) \
  X(I1e,                1, kRealKind,    floating) \
  X(K0,                 1, kRealKind,    floating) \
  X(K1,                 1, kRealKind,    floating) \
  X(Lgamma,             1, kRealKind,    floating) \
  X(LogNdtr,            1, kRealKind,    floating) \
  X(Ndtri,              1, kRealKind,    floating) \
  X(ScaledK0,           1, kRealKind,    floating) \
  X(ScaledK1,           1, kRealKind,    floating) \
  X(SphericalBesselJ0,  1, kRealKind,    floating) \
  X(ChebyshevT,         2, kRealKind,    floating) \
  X(ChebyshevU,         2, kRealKind,    floating) \
  X(ChebyshevV,         2, kRealKind,    floating) \
  X(ChebyshevW,         2, kRealKind,    floating) \
  X(HermiteH,           2, kRealKind,    floating) \
  X(HermiteHe,          2, kRealKind,    floating) \
  X(Igamma,             2, kRealKind,    floating) \
  X(Igammac,            2, kRealKind,    floating) \
  X(LaguerreL,          2, kRealKind,    floating) \
  X(LegendreP,          2, kRealKind,    floating) \
  X(Polygamma,          2, kRealKind,    floating) \
  X(ShiftedChebyshevT,  2, kRealKind,    floating) \
  X(ShiftedChebyshevU,  2, kRealKind,    floating) \
  X(ShiftedChebyshevV,  2, kRealKind,    floating) \
  X(ShiftedChebyshevW,  2, kRealKind,    floating) \
  X(StandardGammaGrad,  2, kRealKind,    floating) \
  X(Xlog1py,            2, kRealKind,    floating) \
  X(Zeta,               2, kRealKind,    floating) \
  X(Gcd,                2, kIntegerKind, promoted) \
  X(Lcm,                2, kIntegerKind, promoted) \
  /* Three and four operands. */                     \
  X(Where,              3, kAllKinds,    chosen)     \
  X(Lerp,               3, kFloatKinds,  promoted)   \
  X(Softplus,           3, kRealKind,    promoted)   \
  X(ThresholdBackward,  3, kNoComplex,   promoted)   \
  X(LeakyReluBackward,  3, kRealKind,    promoted)   \
  X(Addcmul,            4, kAllKinds,    last_apart) \
  X(Addcdiv,            4, kFloatKinds,  last_apart) \
  X(SoftplusBackward,   4, kRealKind,    promoted)

/// Functions that kernels of other names choose between.
#define SHARDLAB_ELEMENT_PARTS(X)                    \
  X(BitwiseNot,         1, kIntegerKind, part)       \
  X(Gelu,               1, kRealKind,    part)       \
  X(GeluTanh,           1, kRealKind,    part)       \
  X(Nextafter,          2, kRealKind,    part)       \
  X(NextafterBF16,      2, kRealKind,    part)       \
  X(NextafterF16,       2, kRealKind,    part)       \
  X(FrexpExponent,      1, kRealKind,    part)       \
  X(FrexpMantissa,      1, kRealKind,    part)       \
  X(Add,                2, kAllKinds,    part)       \
  X(Sub,                2, kAllKinds,    part)       \
  X(Div,                2, kFloatKinds,  part)       \
  X(DivFloor,           2, kNoComplex,   part)       \
  X(DivTrunc,           2, kNoComplex,   part)       \
  X(GeluBackward,       2, kRealKind,    part)       \
  X(GeluTanhBackward,   2, kRealKind,    part)       \
  X(AddScaled,          3, kAllKinds,    part)       \
  X(SubScaled,          3, kAllKinds,    part)       \
  X(RsubScaled,         3, kAllKinds,    part)       \
  X(Clamp,              3, kNoComplex,   part)

#define SHARDLAB_ELEMENT_FUNCTIONS(X) SHARDLAB_ELEMENT_KERNELS(X) SHARDLAB_ELEMENT_PARTS(X)

// clang-format on

#define SHARDLAB_NAME(function, operands, kinds, how) k##function,
/// Functions by name: kTan.
enum class Element : std::uint16_t { SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_NAME) kCount };
#undef SHARDLAB_NAME

#define SHARDLAB_KINDS(function, operands, kinds, how) kinds,
/// The compute types that each function takes, by Element.
inline constexpr unsigned kElementKinds[] = {SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_KINDS)};
#undef SHARDLAB_KINDS

}  // namespace shardlab
