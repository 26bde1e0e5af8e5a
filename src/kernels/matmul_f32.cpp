// Products in f32: skinny ones by the loop of our own, all others through Eigen. A unit for each
// dtype, because Eigen takes long to compile. Eigen's block sizes follow the caches of the machine,
// and with them the order in which terms are added; they are fixed here for all dtypes, so that
// results are the same bits on every machine of one instruction set.
#include <utility>

#include "kernels/eigen_multiply.h"
#include "kernels/skinny_multiply.h"

namespace shardlab {

void multiply(const MatrixView<float>& out, const MatrixView<const float>& a,
              const MatrixView<const float>& b) {
  if (!multiply_skinny(out, a, b)) eigen_multiply(out, a, b);
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
  // A common desktop processor; what matters is that it is the same everywhere.
  constexpr std::ptrdiff_t kKiB = 1024;
  static const bool fixed = [] {
    Eigen::setCpuCacheSizes(32 * kKiB, 1024 * kKiB, 8192 * kKiB);
    return true;
  }();
  static_cast<void>(fixed);
}

}  // namespace shardlab
