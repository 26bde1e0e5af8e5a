// The second copy of products, compiled for AVX-512: every name used here is the copy's own.
#include "kernels/tile_multiply.h"
#include "kernels/wide_products.h"

namespace shardlab {

const WideProducts& products_for_avx512() {
  static const WideProducts products = [] {
    fix_block_sizes();
    return WideProducts{own_products<float>(), own_products<double>()};
  }();
  return products;
}

}  // namespace shardlab
