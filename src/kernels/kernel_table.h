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
using AddFamily = void(KernelTable& table);
AddFamily add_convolution_kernels, add_drawing_kernels, add_lookup_kernels, add_moving_kernels,
    add_normalization_kernels, add_pointwise_kernels, add_product_kernels, add_reduction_kernels,
    add_resample_kernels, add_sorting_kernels;

// The CPU's own: those that no other device has, and six that it has twice, for their marks of
// speed (tests/bench/kernel_bench): softmax, log_softmax, layer norm, and their gradients.
using AddCpuFamily = void(CpuKernelTable& table);
AddCpuFamily add_cpu_normalization_kernels, add_cpu_softmax_kernels, add_factorization_kernels,
    add_fourier_kernels, add_grid_sample_kernels, add_histogram_kernels, add_linalg_kernels,
    add_random_law_kernels, add_rejection_law_kernels, add_segment_kernels, add_sequence_kernels,
    add_singular_value_kernels, add_spectrum_kernels, add_symmetric_spectrum_kernels,
    add_triangle_kernels;

}  // namespace shardlab
