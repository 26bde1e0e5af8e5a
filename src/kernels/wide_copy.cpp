// What the copy of the kernels for AVX-512 consists of: compiled together with them, for that
// processor. Every name that is used here is the copy's own.
#include "kernels/tile_multiply.h"
#include "kernels/wide_kernels.h"

namespace shardlab {

const WideKernels& kernels_for_avx512() {
  static const WideKernels kernels = [] {
    fix_block_sizes();
    return WideKernels{[](KernelTable& table) {
                         add_normalization_kernels(table);
                         add_softmax_kernels(table);
                         add_variance_kernels(table);
                       },
                       element_loops<float>(),
                       element_loops<double>(),
                       bfloat16_loops(),
                       own_products<float>(),
                       own_products<double>(),
                       own_half_runs()};
  }();
  return kernels;
}

}  // namespace shardlab
