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
  add_cpu_normalization_kernels(table);
  add_cpu_softmax_kernels(table);
  add_factorization_kernels(table);
  add_fourier_kernels(table);
  add_grid_sample_kernels(table);
  add_histogram_kernels(table);
  add_linalg_kernels(table);
  add_random_law_kernels(table);
  add_rejection_law_kernels(table);
  add_segment_kernels(table);
  add_sequence_kernels(table);
  add_singular_value_kernels(table);
  add_spectrum_kernels(table);
  add_symmetric_spectrum_kernels(table);
  add_triangle_kernels(table);
  return table;
}

}  // namespace

const KernelTable& shared_kernels() {
  static const KernelTable table = [] {
    KernelTable filled;
    add_convolution_kernels(filled);
    add_drawing_kernels(filled);
    add_lookup_kernels(filled);
    add_moving_kernels(filled);
    add_normalization_kernels(filled);
    add_pointwise_kernels(filled);
    add_product_kernels(filled);
    add_reduction_kernels(filled);
    add_resample_kernels(filled);
    add_sorting_kernels(filled);
    return filled;
  }();
  return table;
}

std::span<const CpuKernel> cpu_kernel_table() {
  static const CpuKernelTable table = make_table();
  return table.kernels();
}

}  // namespace shardlab
