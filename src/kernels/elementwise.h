// elementwise.h - one loop for all pointwise kernels. Operands of any strides and dtypes are
// brought block by block into contiguous runs of the dtype that the functor computes in; so there
// is one instantiation per functor and compute type. An output may be exactly one of the inputs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/promotion.h"

namespace shardlab {

inline constexpr std::size_t kMaxOperands = 4;

/// Computes `count` contiguous elements. out may equal one of the inputs.
using BlockFunction = void (*)(const std::byte* const* in, std::byte* out, std::int64_t count);

/// The dtypes of a block function's inputs and output.
struct BlockSignature {
  std::array<DType, kMaxOperands> in;
  DType out;
  /// f16, bf16 or a narrow integer: tensors of other dtypes are rounded to it before they are
  /// computed with, and numbers wrap to a narrow integer.
  DType rounded = DType::kF64;
};

/// out[i] = function(operands[0][i], ...): tensors broadcast to the output, numbers are constant.
void run_elementwise(const Tensor& out, std::span<const LocalArg> operands,
                     const BlockSignature& signature, BlockFunction function);

/// Applies F to contiguous runs: F::map(in..., out, count) where F has a vector form for these
/// types, else F::apply element by element.
template <typename F, typename... In>
struct Block {
  using Out = decltype(F::apply(std::declval<In>()...));

  static void run(const std::byte* const* in, std::byte* out, std::int64_t count) {
    run_indexed(in, out, count, std::index_sequence_for<In...>{});
  }

  static BlockSignature signature() { return {{dtype_of<In>()...}, dtype_of<Out>()}; }

 private:
  template <std::size_t... I>
  static void run_indexed(const std::byte* const* in, std::byte* out, std::int64_t count,
                          std::index_sequence<I...>) {
    auto* to = reinterpret_cast<Out*>(out);
    const std::tuple<const In*...> from{reinterpret_cast<const In*>(in[I])...};
    if constexpr (requires { F::map(std::get<I>(from)..., to, count); }) {
      F::map(std::get<I>(from)..., to, count);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) to[i] = F::apply(std::get<I>(from)[i]...);
    }
  }
};

/// Runs Block<F, In...> over these operands, which meet in `promoted`.
template <typename F, typename... In>
void apply_block(DType promoted, const Tensor& out, std::span<const LocalArg> operands) {
  BlockSignature signature = Block<F, In...>::signature();
  if (computes_wider(promoted)) signature.rounded = promoted;
  run_elementwise(out, operands, signature, &Block<F, In...>::run);
}

/// Which compute types a functor takes; the rest is Unsupported.
enum Kinds : unsigned { kIntegerKind = 1, kRealKind = 2, kComplexKind = 4, kAllKinds = 7 };

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

template <typename F, typename T, std::size_t... I>
void apply_same(DType promoted, const Tensor& out, std::span<const LocalArg> operands,
                std::index_sequence<I...>) {
  apply_block<F, std::conditional_t<(I >= 0), T, void>...>(promoted, out, operands);
}

/// Runs F with N operands, all in the compute type of `dtype`.
template <typename F, std::size_t N, unsigned kinds>
void apply_as(DType dtype, const Tensor& out, std::span<const LocalArg> operands) {
  with_compute_type<kinds>(dtype, [&](auto type) {
    apply_same<F, decltype(type)>(dtype, out, operands, std::make_index_sequence<N>{});
  });
}

/// A kernel of the first N arguments in their promoted dtype.
template <typename F, std::size_t N, unsigned kinds>
void pointwise_kernel(const KernelCall& call) {
  const std::span<const LocalArg> operands = call.args.first(N);
  apply_as<F, N, kinds>(promote_operands(operands), call.outputs[0], operands);
}

/// The same, but integers and bool become f32 first.
template <typename F, std::size_t N, unsigned kinds>
void float_kernel(const KernelCall& call) {
  const std::span<const LocalArg> operands = call.args.first(N);
  apply_as<F, N, kinds>(float_dtype(promote_operands(operands)), call.outputs[0], operands);
}

}  // namespace shardlab
