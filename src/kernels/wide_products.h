// wide_products.h - products of f32 and f64, compiled a second time for processors with AVX-512,
// which run them in about half the time. Both copies give the same bits: the terms of an element
// are added in one order, however wide a register is (products.h). So the processor chooses, and no
// report has to name the choice.
#pragma once

#include "kernels/products.h"

namespace shardlab {

struct WideProducts {
  Products<float> f32;
  Products<double> f64;
};

/// None where this program was built without them or the processor cannot run them. From any
/// thread; always the same answer.
const WideProducts* wide_products();

/// The only name of the second copy that is visible outside (keep_symbol.py).
const WideProducts& products_for_avx512();

}  // namespace shardlab
