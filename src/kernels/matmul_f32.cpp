// Products in f32: skinny ones by the loop of our own, all others through Eigen. A unit for each
// dtype, because Eigen takes long to compile.
#include <utility>

#include "kernels/skinny_multiply.h"
#include "kernels/wide_panels.h"

namespace shardlab {

template void multiply_in_panels(const MatrixView<float>&, const MatrixView<const float>&,
                                 const MatrixView<const float>&, WideKernels::Multiply<float>);

void multiply(const MatrixView<float>& out, const MatrixView<const float>& a,
              const MatrixView<const float>& b) {
  if (multiply_skinny(out, a, b)) return;
  const WideKernels* wide = wide_kernels();
  multiply_in_panels(out, a, b, wide == nullptr ? nullptr : wide->multiply_f32);
}

std::string_view product_level() {
  const std::string_view sets = Eigen::SimdInstructionSetsInUse();
  const std::pair<std::string_view, std::string_view> levels[] = {
      {"AVX512", "avx512"}, {"AVX", "avx2"}, {"SSE", "sse"}, {"NEON", "neon"}};
  for (const auto& [set, level] : levels) {
    if (sets.find(set) != std::string_view::npos) return level;
  }
  return "other";
}

void fix_matmul_blocking() {
  static const bool fixed = [] {
    fix_block_sizes();
    return true;
  }();
  static_cast<void>(fixed);
}

}  // namespace shardlab
