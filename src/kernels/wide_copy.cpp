// What the copy of the kernels for AVX-512 consists of: compiled together with them, for that
// processor. Every name that is used here is the copy's own.
#include "kernels/wide_kernels.h"

namespace shardlab {

const WideKernels& kernels_for_avx512() {
  static const WideKernels kernels{[](KernelTable& table) {
                                     add_normalization_kernels(table);
                                     add_softmax_kernels(table);
                                     add_variance_kernels(table);
                                   },
                                   element_loops<float>(), element_loops<double>()};
  return kernels;
}

}  // namespace shardlab
