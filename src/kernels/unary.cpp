// Pointwise ops of one tensor that need no elementary function.
#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

constexpr unsigned kNoComplex = kIntegerKind | kRealKind;
constexpr unsigned kFloatKinds = kRealKind | kComplexKind;

struct Identity {
  template <typename T>
  static T apply(T a) {
    return a;
  }
};

// bool inverts, integers flip their bits.
void bitwise_not_kernel(const KernelCall& call) {
  if (tensor_arg(call, 0).dtype() == DType::kBool) {
    return pointwise_kernel<LogicalNot, 1, kIntegerKind>(call);
  }
  pointwise_kernel<BitwiseNot, 1, kIntegerKind>(call);
}

}  // namespace

void add_unary_kernels(KernelTable& table) {
  table.set(KernelId::kNeg, pointwise_kernel<Neg, 1, kAllKinds>);
  table.set(KernelId::kAbs, pointwise_kernel<Abs, 1, kAllKinds>);
  table.set(KernelId::kSign, pointwise_kernel<Sign, 1, kNoComplex>);
  table.set(KernelId::kSgn, pointwise_kernel<Sgn, 1, kAllKinds>);
  table.set(KernelId::kSquare, pointwise_kernel<Square, 1, kAllKinds>);
  table.set(KernelId::kReciprocal, float_kernel<Reciprocal, 1, kFloatKinds>);
  table.set(KernelId::kFloor, pointwise_kernel<Floor, 1, kNoComplex>);
  table.set(KernelId::kCeil, pointwise_kernel<Ceil, 1, kNoComplex>);
  table.set(KernelId::kRound, pointwise_kernel<Round, 1, kNoComplex>);
  table.set(KernelId::kTrunc, pointwise_kernel<Trunc, 1, kNoComplex>);
  table.set(KernelId::kFrac, pointwise_kernel<Frac, 1, kRealKind>);
  table.set(KernelId::kPositive, pointwise_kernel<Identity, 1, kAllKinds>);
  table.set(KernelId::kIsNan, pointwise_kernel<IsNan, 1, kAllKinds>);
  table.set(KernelId::kIsInf, pointwise_kernel<IsInf, 1, kAllKinds>);
  table.set(KernelId::kIsFinite, pointwise_kernel<IsFinite, 1, kAllKinds>);
  table.set(KernelId::kSignbit, pointwise_kernel<Signbit, 1, kNoComplex>);
  table.set(KernelId::kLogicalNot, pointwise_kernel<LogicalNot, 1, kAllKinds>);
  table.set(KernelId::kBitwiseNot, bitwise_not_kernel);
}

}  // namespace shardlab
