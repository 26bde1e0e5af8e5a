// The table is filled by explicit calls, one per family, on first use.
#include "kernels/cpu_kernels.h"

#include "kernels/kernel_table.h"
#include "kernels/matmul.h"

namespace shardlab {

namespace {

KernelTable make_table() {
  fix_matmul_blocking();
  KernelTable table;
  add_along_dim_kernels(table);
  add_convolution_kernels(table);
  add_copy_kernels(table);
  add_embedding_kernels(table);
  add_factorization_kernels(table);
  add_fourier_kernels(table);
  add_grid_sample_kernels(table);
  add_index_element_kernels(table);
  add_loss_kernels(table);
  add_matmul_kernels(table);
  add_normalization_kernels(table);
  add_linalg_kernels(table);
  add_order_statistics_kernels(table);
  add_pointwise_kernels(table);
  add_random_kernels(table);
  add_random_law_kernels(table);
  add_reduce_kernels(table);
  add_rejection_law_kernels(table);
  add_resample_kernels(table);
  add_segment_kernels(table);
  add_selection_kernels(table);
  add_scatter_reduce_kernels(table);
  add_sequence_kernels(table);
  add_singular_value_kernels(table);
  add_softmax_kernels(table);
  add_sorting_kernels(table);
  add_spectrum_kernels(table);
  add_symmetric_spectrum_kernels(table);
  add_triangle_kernels(table);
  add_variance_kernels(table);
  add_vector_norm_kernels(table);
  return table;
}

}  // namespace

std::span<const CpuKernel> cpu_kernel_table() {
  static const KernelTable table = make_table();
  return table.kernels();
}

}  // namespace shardlab
