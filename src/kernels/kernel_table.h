// kernel_table.h - tables of kernels by their ids, as the families fill them.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kernels/kernel_id.h"
#include "kernels/loops.h"
#include "tensor/cpu_device.h"

namespace shardlab {

/// From ids to functions; ids without one are refused when they are launched. Filled once, by one
/// thread.
template <typename Function>
class KernelsById {
 public:
  /// A later function for the same id replaces the earlier one.
  void set(KernelId id, Function kernel) { kernels_[static_cast<std::size_t>(id)] = kernel; }
  /// Null if there is none.
  Function find(KernelId id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < kernels_.size() ? kernels_[index] : nullptr;
  }
  std::span<const Function> kernels() const { return kernels_; }

 private:
  std::array<Function, static_cast<std::size_t>(KernelId::kCount)> kernels_{};
};

/// Kernels of every device.
using KernelTable = KernelsById<Kernel>;
/// Kernels of the CPU alone.
using CpuKernelTable = KernelsById<CpuKernel>;

/// Those of every device. Lives as long as the program; thread-safe.
const KernelTable& shared_kernels();

// One function per family.
void add_convolution_kernels(KernelTable& table);
void add_drawing_kernels(KernelTable& table);
void add_lookup_kernels(KernelTable& table);
void add_moving_kernels(KernelTable& table);
void add_normalization_kernels(KernelTable& table);
void add_pointwise_kernels(KernelTable& table);
void add_product_kernels(KernelTable& table);
void add_reduction_kernels(KernelTable& table);
void add_resample_kernels(KernelTable& table);
void add_sorting_kernels(KernelTable& table);

// The CPU's own: those that no other device has, and six that it has twice, for their marks of
// speed (tests/bench/kernel_bench): softmax, log_softmax, layer norm, and their gradients.
void add_cpu_normalization_kernels(CpuKernelTable& table);
void add_cpu_softmax_kernels(CpuKernelTable& table);
void add_factorization_kernels(CpuKernelTable& table);
void add_fourier_kernels(CpuKernelTable& table);
void add_grid_sample_kernels(CpuKernelTable& table);
void add_histogram_kernels(CpuKernelTable& table);
void add_linalg_kernels(CpuKernelTable& table);
void add_random_law_kernels(CpuKernelTable& table);
void add_rejection_law_kernels(CpuKernelTable& table);
void add_segment_kernels(CpuKernelTable& table);
void add_sequence_kernels(CpuKernelTable& table);
void add_singular_value_kernels(CpuKernelTable& table);
void add_spectrum_kernels(CpuKernelTable& table);
void add_symmetric_spectrum_kernels(CpuKernelTable& table);
void add_triangle_kernels(CpuKernelTable& table);

}  // namespace shardlab
