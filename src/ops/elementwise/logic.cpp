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
    {"eq.Scalar"_op, meta_bool, kNone, KernelId::kEq, {},
     "terms say nothing about the truth of the whole"},
    {"eq.Tensor"_op, meta_bool, kNone, KernelId::kEq, {},
     "terms say nothing about the truth of the whole"},
    {"ge.Scalar"_op, meta_bool, kNone, KernelId::kGe, {},
     "terms say nothing about the truth of the whole"},
    {"ge.Tensor"_op, meta_bool, kNone, KernelId::kGe, {},
     "terms say nothing about the truth of the whole"},
    {"gt.Scalar"_op, meta_bool, kNone, KernelId::kGt, {},
     "terms say nothing about the truth of the whole"},
    {"gt.Tensor"_op, meta_bool, kNone, KernelId::kGt, {},
     "terms say nothing about the truth of the whole"},
    {"isfinite"_op, meta_bool, kNone, KernelId::kIsFinite, {},
     "terms say nothing about the truth of the whole"},
    {"isinf"_op, meta_bool, kNone, KernelId::kIsInf, {},
     "terms say nothing about the truth of the whole"},
    {"isnan"_op, meta_bool, kNone, KernelId::kIsNan, {},
     "terms say nothing about the truth of the whole"},
    {"le.Scalar"_op, meta_bool, kNone, KernelId::kLe, {},
     "terms say nothing about the truth of the whole"},
    {"le.Tensor"_op, meta_bool, kNone, KernelId::kLe, {},
     "terms say nothing about the truth of the whole"},
    {"logical_and"_op, meta_bool, kNone, KernelId::kLogicalAnd, {},
     "terms say nothing about the truth of the whole"},
    {"logical_not"_op, meta_bool, kNone, KernelId::kLogicalNot, {},
     "terms say nothing about the truth of the whole"},
    {"logical_or"_op, meta_bool, kNone, KernelId::kLogicalOr, {},
     "terms say nothing about the truth of the whole"},
    {"logical_xor"_op, meta_bool, kNone, KernelId::kLogicalXor, {},
     "terms say nothing about the truth of the whole"},
    {"lt.Scalar"_op, meta_bool, kNone, KernelId::kLt, {},
     "terms say nothing about the truth of the whole"},
    {"lt.Tensor"_op, meta_bool, kNone, KernelId::kLt, {},
     "terms say nothing about the truth of the whole"},
    {"ne.Scalar"_op, meta_bool, kNone, KernelId::kNe, {},
     "terms say nothing about the truth of the whole"},
    {"ne.Tensor"_op, meta_bool, kNone, KernelId::kNe, {},
     "terms say nothing about the truth of the whole"},
    {"signbit"_op, meta_bool, kNone, KernelId::kSignbit, {},
     "terms say nothing about the truth of the whole"},
};
// clang-format on

}  // namespace

void register_logic(OpRegistry& registry) { add_pointwise_rows(registry, kLogicRows); }

}  // namespace shardlab
