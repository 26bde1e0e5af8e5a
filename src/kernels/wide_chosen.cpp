// The copy of products for AVX-512 is taken where the processor has all that it uses.
#include "kernels/wide_products.h"

namespace shardlab {

const WideProducts* wide_products() {
  static const bool runs = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512cd") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return runs ? &products_for_avx512() : nullptr;
}

}  // namespace shardlab
