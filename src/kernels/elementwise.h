// elementwise.h - one loop for all pointwise kernels. Operands of any strides and dtypes are
// brought block by block into contiguous runs of the dtype that the function computes in; so there
// is one loop per function and compute type. An output may be exactly one of the inputs.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/element_functions.h"
#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/promotion.h"

namespace shardlab {

inline constexpr std::size_t kMaxOperands = 4;

/// A function of element_functions.h over contiguous runs in one compute type.
struct ElementLoop {
  /// Computes `count` elements; `out` may equal one of the inputs. Null: the function does not take
  /// the type.
  void (*run)(const std::byte* const* in, std::byte* out, std::int64_t count) = nullptr;
  std::array<DType, kMaxOperands> in{};
  DType out{};
};
/// The loops in compute type T, by Element; one unit compiles those of one type. Those of i32 are
/// few: it computes in i64 otherwise.
template <typename T>
std::span<const ElementLoop> element_loops();

/// out[i] = function(operands[0][i], ...), computed in the compute type of `promoted`: tensors
/// broadcast to the output, numbers are constant. Operands of other dtypes are rounded to a
/// `promoted` of f16, bf16 or a narrow integer first. Fails with Unsupported where the function
/// does not take the dtype.
void run_elementwise(Element function, DType promoted, const Tensor& out,
                     std::span<const LocalArg> operands);

[[noreturn]] void refuse_dtype(DType dtype);

/// Calls run(T{}) with the compute type of `dtype`, if it is among these kinds.
template <unsigned kinds, typename Run>
void with_compute_type(DType dtype, Run&& run) {
  switch (compute_dtype(dtype)) {
    case DType::kI64:
      if constexpr ((kinds & kIntegerKind) != 0) return run(std::int64_t{});
      break;
    case DType::kF32:
      if constexpr ((kinds & kRealKind) != 0) return run(float{});
      break;
    case DType::kF64:
      if constexpr ((kinds & kRealKind) != 0) return run(double{});
      break;
    case DType::kC64:
      if constexpr ((kinds & kComplexKind) != 0) return run(std::complex<float>{});
      break;
    default:
      if constexpr ((kinds & kComplexKind) != 0) return run(std::complex<double>{});
  }
  refuse_dtype(dtype);
}

}  // namespace shardlab
