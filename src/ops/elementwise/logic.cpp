// Comparisons, logic and bits, element by element. None has a gradient.
#include "ops/family.h"

namespace shardlab {
namespace {

// Sorted by name.
// clang-format off
constexpr Row kLogicRows[] = {
    {"bitwise_and.Scalar"_op, meta_promoted, kNone, KernelId::kBitwiseAnd, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_and.Scalar_Tensor"_op, meta_promoted, kNone, KernelId::kBitwiseAnd, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_and.Tensor"_op, meta_promoted, kNone, KernelId::kBitwiseAnd, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Scalar_Tensor"_op, meta_promoted, kNone, KernelId::kLeftShift, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Tensor"_op, meta_promoted, kNone, KernelId::kLeftShift, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Tensor_Scalar"_op, meta_promoted, kNone, KernelId::kLeftShift, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_not"_op, meta_tensors, kNone, KernelId::kBitwiseNot, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_or.Scalar"_op, meta_promoted, kNone, KernelId::kBitwiseOr, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_or.Scalar_Tensor"_op, meta_promoted, kNone, KernelId::kBitwiseOr, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_or.Tensor"_op, meta_promoted, kNone, KernelId::kBitwiseOr, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Scalar_Tensor"_op, meta_promoted, kNone, KernelId::kRightShift, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Tensor"_op, meta_promoted, kNone, KernelId::kRightShift, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Tensor_Scalar"_op, meta_promoted, kNone, KernelId::kRightShift, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Scalar"_op, meta_promoted, kNone, KernelId::kBitwiseXor, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Scalar_Tensor"_op, meta_promoted, kNone, KernelId::kBitwiseXor, {},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Tensor"_op, meta_promoted, kNone, KernelId::kBitwiseXor, {},
     "bits of a sum are not those of its terms"},
    on_truths("eq.Scalar"_op, KernelId::kEq, {}, "terms say nothing about the truth of the whole"),
    on_truths("eq.Tensor"_op, KernelId::kEq, {}, "terms say nothing about the truth of the whole"),
    on_truths("ge.Scalar"_op, KernelId::kGe, {}, "terms say nothing about the truth of the whole"),
    on_truths("ge.Tensor"_op, KernelId::kGe, {}, "terms say nothing about the truth of the whole"),
    on_truths("gt.Scalar"_op, KernelId::kGt, {}, "terms say nothing about the truth of the whole"),
    on_truths("gt.Tensor"_op, KernelId::kGt, {}, "terms say nothing about the truth of the whole"),
    on_truths("isfinite"_op, KernelId::kIsFinite, {},
              "terms say nothing about the truth of the whole"),
    on_truths("isinf"_op, KernelId::kIsInf, {}, "terms say nothing about the truth of the whole"),
    on_truths("isnan"_op, KernelId::kIsNan, {}, "terms say nothing about the truth of the whole"),
    on_truths("le.Scalar"_op, KernelId::kLe, {}, "terms say nothing about the truth of the whole"),
    on_truths("le.Tensor"_op, KernelId::kLe, {}, "terms say nothing about the truth of the whole"),
    on_truths("logical_and"_op, KernelId::kLogicalAnd, {},
              "terms say nothing about the truth of the whole"),
    on_truths("logical_not"_op, KernelId::kLogicalNot, {},
              "terms say nothing about the truth of the whole"),
    on_truths("logical_or"_op, KernelId::kLogicalOr, {},
              "terms say nothing about the truth of the whole"),
    on_truths("logical_xor"_op, KernelId::kLogicalXor, {},
              "terms say nothing about the truth of the whole"),
    on_truths("lt.Scalar"_op, KernelId::kLt, {}, "terms say nothing about the truth of the whole"),
    on_truths("lt.Tensor"_op, KernelId::kLt, {}, "terms say nothing about the truth of the whole"),
    on_truths("ne.Scalar"_op, KernelId::kNe, {}, "terms say nothing about the truth of the whole"),
    on_truths("ne.Tensor"_op, KernelId::kNe, {}, "terms say nothing about the truth of the whole"),
    on_truths("signbit"_op, KernelId::kSignbit, {},
              "terms say nothing about the truth of the whole"),
};
// clang-format on

}  // namespace

void register_logic(OpRegistry& registry) { add_pointwise_rows(registry, kLogicRows); }

}  // namespace shardlab
