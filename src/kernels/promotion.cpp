#include "kernels/promotion.h"

namespace shardlab {

namespace {

void merge(std::optional<DType>& into, DType dtype) { into = into ? promote(*into, dtype) : dtype; }

// `lower` matters only where its category is higher.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_complex(*higher)) return higher;
  if (is_floating(*higher)) {
    if (!is_complex(*lower)) return higher;
    switch (*higher) {  // the complex dtype of the real operand's width
      case DType::kF16:
        return DType::kC32;
      case DType::kBF16:
        return DType::kBC32;
      case DType::kF64:
        return DType::kC128;
      default:
        return DType::kC64;
    }
  }
  if (*higher == DType::kBool || !is_integral(*lower)) return promote(*higher, *lower);
  return higher;
}

}  // namespace

void Promotion::add_tensor(DType dtype, bool has_dims) {
  merge(has_dims ? with_dims_ : without_dims_, dtype);
}

void Promotion::add_number(Category category) { merge(numbers_, default_dtype(category)); }

DType Promotion::result() const {
  return combine(with_dims_, combine(without_dims_, numbers_)).value_or(DType::kBool);
}

DType promote_operands(std::span<const LocalArg> operands) {
  Promotion promotion;
  for (const LocalArg& operand : operands) {
    if (const auto* tensor = std::get_if<Tensor>(&operand)) {
      promotion.add_tensor(tensor->dtype(), tensor->dim() > 0);
    } else if (const auto* number = std::get_if<Scalar>(&operand)) {
      promotion.add_number(number->category());
    }
  }
  return promotion.result();
}

}  // namespace shardlab
