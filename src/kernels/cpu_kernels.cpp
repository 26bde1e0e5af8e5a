// The table is filled by explicit calls, one per family, on first use: kernels of every device run
// over the CPU's loops, others are its own.
#include "kernels/cpu_kernels.h"

#include "base/memory_account.h"
#include "kernels/cpu_loops.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul.h"

namespace shardlab {

namespace {

void run_shared(const KernelCall& call) {
  static const KernelTable& kernels = shared_kernels();
  // Memory of values between two loops is the kernel's own affair, as its scratch memory is.
  const UncountedScope uncounted;
  kernels.find(call.kernel)(cpu_loops(), call);
}

CpuKernelTable make_table() {
  fix_matmul_blocking();
  CpuKernelTable table;
  const auto shared = shared_kernels().kernels();
  for (std::size_t id = 0; id < shared.size(); ++id) {
    if (shared[id] != nullptr) table.set(static_cast<KernelId>(id), run_shared);
  }
  for (auto* const add :
       {add_cpu_normalization_kernels, add_cpu_softmax_kernels, add_factorization_kernels,
        add_fourier_kernels, add_grid_sample_kernels, add_histogram_kernels, add_linalg_kernels,
        add_random_law_kernels, add_rejection_law_kernels, add_segment_kernels,
        add_sequence_kernels, add_singular_value_kernels, add_spectrum_kernels,
        add_symmetric_spectrum_kernels, add_triangle_kernels}) {
    add(table);
  }
  return table;
}

}  // namespace

const KernelTable& shared_kernels() {
  static const KernelTable table = [] {
    KernelTable filled;
    for (auto* const add :
         {add_convolution_kernels, add_drawing_kernels, add_lookup_kernels, add_moving_kernels,
          add_normalization_kernels, add_pointwise_kernels, add_product_kernels,
          add_reduction_kernels, add_resample_kernels, add_sorting_kernels}) {
      add(filled);
    }
    return filled;
  }();
  return table;
}

std::span<const CpuKernel> cpu_kernel_table() {
  static const CpuKernelTable table = make_table();
  return table.kernels();
}

}  // namespace shardlab
