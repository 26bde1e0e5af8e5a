// wide_kernels.h - kernels that processors with AVX-512 run in about half the time, compiled for
// them a second time. Both copies give the same bits: what a lane computes depends on that lane
// alone, and which element is in which lane of a sum does not depend on how wide a register is. So
// the processor chooses, and no report has to say what it chose.
#pragma once

#include <span>

#include "kernels/elementwise.h"
#include "kernels/half_runs.h"
#include "kernels/kernel_table.h"
#include "kernels/products.h"

namespace shardlab {

/// What the second copy replaces.
struct WideKernels {
  /// Puts its kernels in the place of those that are in the table.
  void (*add)(KernelTable& table);
  std::span<const ElementLoop> f32_loops;
  std::span<const ElementLoop> f64_loops;
  std::span<const ElementLoop> bf16_loops;
  Products<float> f32_products;
  Products<double> f64_products;
  HalfRuns half_runs;
};

/// None where this program was built without them or the processor cannot run them. From any
/// thread; always the same answer.
const WideKernels* wide_kernels();

/// The only name of the second copy that others see (keep_symbol.py).
const WideKernels& kernels_for_avx512();

}  // namespace shardlab
