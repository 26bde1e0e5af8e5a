// Operands promote in three groups as in ATen: tensors with dims, tensors without dims, numbers. A
// later group counts only where its category is higher, and then only by its category: f32[4] + 2.0
// stays f32.
#include "kernels/promotion.h"

#include <algorithm>
#include <limits>

namespace shardlab {

namespace {

void merge(std::optional<DType>& into, DType dtype) { into = into ? promote(*into, dtype) : dtype; }

// `lower` matters only where its category is higher.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_complex(*higher)) return higher;
  if (is_floating(*higher)) return is_complex(*lower) ? complex_dtype(*higher) : higher;
  if (*higher == DType::kBool) return promote(*higher, *lower);
  return is_integral(*lower) ? higher : lower;
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

bool computes_wider(DType dtype) {
  if (is_integral(dtype)) return dtype != DType::kBool && item_bytes(dtype) < 8;
  return is_half(dtype);
}

bool converts_first(DType from, DType to) {
  return from != to && (to == DType::kBool || is_half(to));
}

Scalar lowest_number(DType dtype) {
  if (dtype == DType::kBool) return false;
  if (dtype == DType::kU8 || dtype == DType::kU64) return 0;
  if (is_integral(dtype)) return std::int64_t{-1} << (8 * item_bytes(dtype) - 1);
  if (dtype == DType::kF8E4M3FN) return -448.0;
  return -std::numeric_limits<double>::infinity();
}

Scalar highest_number(DType dtype) {
  if (dtype == DType::kBool) return true;
  if (dtype == DType::kU8) return 255;
  if (dtype == DType::kU64) return std::numeric_limits<std::int64_t>::max();
  if (is_integral(dtype)) return ~lowest_number(dtype).to_int();
  if (dtype == DType::kF8E4M3FN) return 448.0;
  return std::numeric_limits<double>::infinity();
}

double largest_finite(DType dtype) {
  if (dtype == DType::kF16) return 65504;
  if (dtype == DType::kBF16) return 0x1.FEp127;
  if (dtype == DType::kF8E4M3FN) return highest_number(dtype).to_double();
  return dtype == DType::kF64 ? std::numeric_limits<double>::max()
                              : std::numeric_limits<float>::max();
}

bool representable(const Scalar& number, DType dtype) {
  if (!is_integral(dtype) || dtype == DType::kBool) return true;
  const std::int64_t lowest = lowest_number(dtype).to_int();
  const std::int64_t highest = highest_number(dtype).to_int();
  if (!number.is_integral()) {
    const double value = number.to_double();
    return value >= static_cast<double>(lowest) && value < static_cast<double>(highest) + 1;
  }
  const std::int64_t value = number.to_int();
  return value >= (dtype == DType::kU8 ? -highest : lowest) && value <= highest;
}

bool wraps_to_zero(const Scalar& number, DType dtype) {
  const auto unused_bits = static_cast<unsigned>(64 - 8 * item_bytes(dtype));
  return static_cast<std::uint64_t>(number.to_int()) << unused_bits == 0;
}

LocalArg within_range(const LocalArg& bound, DType dtype) {
  const auto* number = std::get_if<Scalar>(&bound);
  if (number == nullptr || !number->is_integral() || !is_integral(dtype)) return bound;
  return Scalar(
      std::clamp(number->to_int(), lowest_number(dtype).to_int(), highest_number(dtype).to_int()));
}

}  // namespace shardlab
