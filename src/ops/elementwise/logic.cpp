// Comparisons, logic and bits, element by element. None has a gradient.
#include "kernels/kernel_id.h"
#include "ops/core/meta.h"
#include "ops/core/pointwise.h"
#include "ops/register.h"

namespace shardlab {
namespace {

// Sorted by name.
// clang-format off
constexpr Row kLogicRows[] = {
    {"bitwise_and.Scalar", meta_promoted, kNone, KernelId::kBitwiseAnd,
     {"bitwise_and_.Scalar", "bitwise_and.Scalar_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_and.Scalar_Tensor", meta_promoted, kNone, KernelId::kBitwiseAnd,
     {nullptr, "bitwise_and.Scalar_Tensor_out"}, {}, "bits of a sum are not those of its terms"},
    {"bitwise_and.Tensor", meta_promoted, kNone, KernelId::kBitwiseAnd,
     {"bitwise_and_.Tensor", "bitwise_and.Tensor_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Scalar_Tensor", meta_promoted, kNone, KernelId::kLeftShift,
     {nullptr, "bitwise_left_shift.Scalar_Tensor_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Tensor", meta_promoted, kNone, KernelId::kLeftShift,
     {"bitwise_left_shift_.Tensor", "bitwise_left_shift.Tensor_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Tensor_Scalar", meta_promoted, kNone, KernelId::kLeftShift,
     {"bitwise_left_shift_.Tensor_Scalar", "bitwise_left_shift.Tensor_Scalar_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_not", meta_tensors, kNone, KernelId::kBitwiseNot, {"bitwise_not_", "bitwise_not.out"},
     {}, "bits of a sum are not those of its terms"},
    {"bitwise_or.Scalar", meta_promoted, kNone, KernelId::kBitwiseOr,
     {"bitwise_or_.Scalar", "bitwise_or.Scalar_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_or.Scalar_Tensor", meta_promoted, kNone, KernelId::kBitwiseOr,
     {nullptr, "bitwise_or.Scalar_Tensor_out"}, {}, "bits of a sum are not those of its terms"},
    {"bitwise_or.Tensor", meta_promoted, kNone, KernelId::kBitwiseOr,
     {"bitwise_or_.Tensor", "bitwise_or.Tensor_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Scalar_Tensor", meta_promoted, kNone, KernelId::kRightShift,
     {nullptr, "bitwise_right_shift.Scalar_Tensor_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Tensor", meta_promoted, kNone, KernelId::kRightShift,
     {"bitwise_right_shift_.Tensor", "bitwise_right_shift.Tensor_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Tensor_Scalar", meta_promoted, kNone, KernelId::kRightShift,
     {"bitwise_right_shift_.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Scalar", meta_promoted, kNone, KernelId::kBitwiseXor,
     {"bitwise_xor_.Scalar", "bitwise_xor.Scalar_out"}, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Scalar_Tensor", meta_promoted, kNone, KernelId::kBitwiseXor,
     {nullptr, "bitwise_xor.Scalar_Tensor_out"}, {}, "bits of a sum are not those of its terms"},
    {"bitwise_xor.Tensor", meta_promoted, kNone, KernelId::kBitwiseXor,
     {"bitwise_xor_.Tensor", "bitwise_xor.Tensor_out"}, {},
     "bits of a sum are not those of its terms"},
    {"eq.Scalar", meta_bool, kNone, KernelId::kEq, {"eq_.Scalar", "eq.Scalar_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"eq.Tensor", meta_bool, kNone, KernelId::kEq, {"eq_.Tensor", "eq.Tensor_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"ge.Scalar", meta_bool, kNone, KernelId::kGe, {"ge_.Scalar", "ge.Scalar_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"ge.Tensor", meta_bool, kNone, KernelId::kGe, {"ge_.Tensor", "ge.Tensor_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"gt.Scalar", meta_bool, kNone, KernelId::kGt, {"gt_.Scalar", "gt.Scalar_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"gt.Tensor", meta_bool, kNone, KernelId::kGt, {"gt_.Tensor", "gt.Tensor_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"isfinite", meta_bool, kNone, KernelId::kIsFinite, {}, {},
     "terms say nothing about the truth of the whole"},
    {"isinf", meta_bool, kNone, KernelId::kIsInf, {nullptr, "isinf.out"}, {},
     "terms say nothing about the truth of the whole"},
    {"isnan", meta_bool, kNone, KernelId::kIsNan, {nullptr, "isnan.out"}, {},
     "terms say nothing about the truth of the whole"},
    {"le.Scalar", meta_bool, kNone, KernelId::kLe, {"le_.Scalar", "le.Scalar_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"le.Tensor", meta_bool, kNone, KernelId::kLe, {"le_.Tensor", "le.Tensor_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"logical_and", meta_bool, kNone, KernelId::kLogicalAnd, {"logical_and_", "logical_and.out"},
     {}, "terms say nothing about the truth of the whole"},
    {"logical_not", meta_bool, kNone, KernelId::kLogicalNot, {"logical_not_", "logical_not.out"},
     {}, "terms say nothing about the truth of the whole"},
    {"logical_or", meta_bool, kNone, KernelId::kLogicalOr, {"logical_or_", "logical_or.out"}, {},
     "terms say nothing about the truth of the whole"},
    {"logical_xor", meta_bool, kNone, KernelId::kLogicalXor, {"logical_xor_", "logical_xor.out"},
     {}, "terms say nothing about the truth of the whole"},
    {"lt.Scalar", meta_bool, kNone, KernelId::kLt, {"lt_.Scalar", "lt.Scalar_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"lt.Tensor", meta_bool, kNone, KernelId::kLt, {"lt_.Tensor", "lt.Tensor_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"ne.Scalar", meta_bool, kNone, KernelId::kNe, {"ne_.Scalar", "ne.Scalar_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"ne.Tensor", meta_bool, kNone, KernelId::kNe, {"ne_.Tensor", "ne.Tensor_out"}, {},
     "terms say nothing about the truth of the whole"},
    {"signbit", meta_bool, kNone, KernelId::kSignbit, {nullptr, "signbit.out"}, {},
     "terms say nothing about the truth of the whole"},
};
// clang-format on

}  // namespace

void register_logic(OpRegistry& registry) { add_pointwise_rows(registry, kLogicRows); }

}  // namespace shardlab
