// kernel_table.h - the CPU device's table, as the families fill it.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/kernel_id.h"
#include "tensor/cpu_device.h"

namespace shardlab {

/// From ids to functions; ids without one are refused when they are launched. Filled once, by one
/// thread.
class KernelTable {
 public:
  /// A later function for the same id replaces the earlier one.
  void set(KernelId id, CpuKernel kernel) { kernels_[static_cast<std::size_t>(id)] = kernel; }
  std::span<const CpuKernel> kernels() const { return kernels_; }

 private:
  std::array<CpuKernel, static_cast<std::size_t>(KernelId::kCount)> kernels_{};
};

// One function per family.
void add_along_dim_kernels(KernelTable& table);
void add_convolution_kernels(KernelTable& table);
void add_copy_kernels(KernelTable& table);
void add_embedding_kernels(KernelTable& table);
void add_factorization_kernels(KernelTable& table);
void add_fourier_kernels(KernelTable& table);
void add_grid_sample_kernels(KernelTable& table);
void add_index_element_kernels(KernelTable& table);
void add_loss_kernels(KernelTable& table);
void add_matmul_kernels(KernelTable& table);
void add_normalization_kernels(KernelTable& table);
void add_linalg_kernels(KernelTable& table);
void add_order_statistics_kernels(KernelTable& table);
void add_pointwise_kernels(KernelTable& table);
void add_random_kernels(KernelTable& table);
void add_random_law_kernels(KernelTable& table);
void add_reduce_kernels(KernelTable& table);
void add_rejection_law_kernels(KernelTable& table);
void add_resample_kernels(KernelTable& table);
void add_segment_kernels(KernelTable& table);
void add_selection_kernels(KernelTable& table);
void add_scatter_reduce_kernels(KernelTable& table);
void add_sequence_kernels(KernelTable& table);
void add_singular_value_kernels(KernelTable& table);
void add_softmax_kernels(KernelTable& table);
void add_sorting_kernels(KernelTable& table);
void add_spectrum_kernels(KernelTable& table);
void add_symmetric_spectrum_kernels(KernelTable& table);
void add_triangle_kernels(KernelTable& table);
void add_variance_kernels(KernelTable& table);
void add_vector_norm_kernels(KernelTable& table);

}  // namespace shardlab
