// Products in f32: skinny ones by the loop of our own, all others through Eigen. A unit for each
// dtype, because Eigen takes long to compile.
#include <utility>

#include "kernels/tile_multiply.h"

namespace shardlab {

void multiply(const MatrixView<float>& out, const MatrixView<const float>& a,
              const MatrixView<const float>& b) {
  multiply_real(out, a, b);
}

std::string_view product_level() {
  const std::string_view sets = Eigen::SimdInstructionSetsInUse();
  const std::pair<std::string_view, std::string_view> levels[] = {
      {"AVX", "avx2"}, {"SSE", "sse"}, {"NEON", "neon"}};
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
