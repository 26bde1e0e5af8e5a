// Comparisons, logic and bits, element by element. None has a gradient.
#include "ops/family.h"

namespace shardlab {
namespace {

constexpr Row bits(RowText name, MetaFn meta, KernelId kernel) {
  return {name, meta, kNone, kernel, {}, "bits of a sum are not those of its terms"};
}
constexpr Row truth(RowText name, KernelId kernel) {
  return on_truths(name, kernel, {}, "terms say nothing about the truth of the whole");
}

// Sorted by name.
// clang-format off
constexpr Row kLogicRows[] = {
    bits("bitwise_and.Scalar"_op, meta_promoted, KernelId::kBitwiseAnd),
    bits("bitwise_and.Scalar_Tensor"_op, meta_promoted, KernelId::kBitwiseAnd),
    bits("bitwise_and.Tensor"_op, meta_promoted, KernelId::kBitwiseAnd),
    bits("bitwise_left_shift.Scalar_Tensor"_op, meta_promoted, KernelId::kLeftShift),
    bits("bitwise_left_shift.Tensor"_op, meta_promoted, KernelId::kLeftShift),
    bits("bitwise_left_shift.Tensor_Scalar"_op, meta_promoted, KernelId::kLeftShift),
    bits("bitwise_not"_op, meta_tensors, KernelId::kBitwiseNot),
    bits("bitwise_or.Scalar"_op, meta_promoted, KernelId::kBitwiseOr),
    bits("bitwise_or.Scalar_Tensor"_op, meta_promoted, KernelId::kBitwiseOr),
    bits("bitwise_or.Tensor"_op, meta_promoted, KernelId::kBitwiseOr),
    bits("bitwise_right_shift.Scalar_Tensor"_op, meta_promoted, KernelId::kRightShift),
    bits("bitwise_right_shift.Tensor"_op, meta_promoted, KernelId::kRightShift),
    bits("bitwise_right_shift.Tensor_Scalar"_op, meta_promoted, KernelId::kRightShift),
    bits("bitwise_xor.Scalar"_op, meta_promoted, KernelId::kBitwiseXor),
    bits("bitwise_xor.Scalar_Tensor"_op, meta_promoted, KernelId::kBitwiseXor),
    bits("bitwise_xor.Tensor"_op, meta_promoted, KernelId::kBitwiseXor),
    truth("eq.Scalar"_op, KernelId::kEq),
    truth("eq.Tensor"_op, KernelId::kEq),
    truth("ge.Scalar"_op, KernelId::kGe),
    truth("ge.Tensor"_op, KernelId::kGe),
    truth("gt.Scalar"_op, KernelId::kGt),
    truth("gt.Tensor"_op, KernelId::kGt),
    truth("isfinite"_op, KernelId::kIsFinite),
    truth("isinf"_op, KernelId::kIsInf),
    truth("isnan"_op, KernelId::kIsNan),
    truth("le.Scalar"_op, KernelId::kLe),
    truth("le.Tensor"_op, KernelId::kLe),
    truth("logical_and"_op, KernelId::kLogicalAnd),
    truth("logical_not"_op, KernelId::kLogicalNot),
    truth("logical_or"_op, KernelId::kLogicalOr),
    truth("logical_xor"_op, KernelId::kLogicalXor),
    truth("lt.Scalar"_op, KernelId::kLt),
    truth("lt.Tensor"_op, KernelId::kLt),
    truth("ne.Scalar"_op, KernelId::kNe),
    truth("ne.Tensor"_op, KernelId::kNe),
    truth("signbit"_op, KernelId::kSignbit),
};
// clang-format on

}  // namespace

void register_logic(OpRegistry& registry) { add_pointwise_rows(registry, kLogicRows); }

}  // namespace shardlab
