// ordered.h - floats as integers of the same order, so that the largest of the integers is that of
// the floats, NaN included. One element at a time, for devices and for the host.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "kernels/functors.h"

namespace shardlab::backends {

/// count elements of `from` to `to`: floats to the integers of the same order, or back. For kMax
/// NaN is above, for kMin below all numbers; -0 is below 0. Contiguous, not overlapping.
struct Ordering {
  enum class To : std::uint8_t { kIntegers, kFloats } to_which;
  DType floats;
  ReduceOp op;  ///< kMax or kMin
  const void* from;
  void* to;
  std::int64_t count;
};

/// The integers for floats of this dtype; none for other dtypes. 16 bits are carried in 32.
inline std::optional<DType> integers_for(DType floats) {
  switch (floats) {
    case DType::kF8E4M3FN:
      return DType::kI8;
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return DType::kI32;
    case DType::kF64:
      return DType::kI64;
    default:
      return std::nullopt;
  }
}

/// Element i of an Ordering. The bits of floats of one sign are in order as integers are, those of
/// negative ones the other way round; magnitudes above that of infinity, or of f8's largest number,
/// are NaN.
struct OrderBody {
  Ordering work;

  SHARDLAB_HD void operator()(std::int64_t i) const {
    switch (work.floats) {
      case DType::kF8E4M3FN:
        return one<std::int8_t, std::int8_t>(i, 0x7E);
      case DType::kF16:
        return one<std::int16_t, std::int32_t>(i, 0x7C00);
      case DType::kBF16:
        return one<std::int16_t, std::int32_t>(i, 0x7F80);
      case DType::kF32:
        return one<std::int32_t, std::int32_t>(i, 0x7F800000);
      case DType::kF64:
        return one<std::int64_t, std::int64_t>(i, 0x7FF0000000000000);
      default:
        return;
    }
  }

 private:
  template <typename Bits, typename Carrier>
  SHARDLAB_HD void one(std::int64_t i, Bits largest) const {
    constexpr Bits kAll = std::numeric_limits<Bits>::max();  // a quiet NaN
    const bool back = work.to_which == Ordering::To::kFloats;
    const auto given = back ? static_cast<Bits>(static_cast<const Carrier*>(work.from)[i])
                            : static_cast<const Bits*>(work.from)[i];
    const auto turned = static_cast<Bits>(given < 0 ? given ^ kAll : given);
    const bool nan = ((back ? turned : given) & kAll) > largest;
    if (back) {
      static_cast<Bits*>(work.to)[i] = nan ? kAll : turned;
    } else {
      const Bits extreme = work.op == ReduceOp::kMax ? kAll : std::numeric_limits<Bits>::min();
      static_cast<Carrier*>(work.to)[i] = nan ? extreme : turned;
    }
  }
};

/// In host memory.
inline void order(const Ordering& work) {
  const OrderBody body{work};
  for (std::int64_t i = 0; i < work.count; ++i) body(i);
}

}  // namespace shardlab::backends
