// cpu_loops.h - the loops of the CPU.
#pragma once

#include "kernels/loops.h"

namespace shardlab {

/// Without state, for any thread; memory between loops does not count as that of a device.
Loops& cpu_loops();

// Loops that have files of their own.
void cpu_fold(Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
              const Tensor& out);
void cpu_extremum(Fold kind, const Tensor& self, const DimMask& reduced, const Tensor& values,
                  const Tensor& places);
void cpu_scan(Scan scan, const Tensor& self, const DimMask& dim, const Tensor& values,
              const Tensor& places);
void cpu_spread(const Tensor& self, const DimMask& reduced, const Tensor& means,
                const Tensor& squares);
void cpu_multiply(const Tensor& out, const Tensor& a, const Tensor& b);
void cpu_draw(const Draw& draw);
Sorted cpu_sorted(const Tensor& self, const DimMask& dim, SortOrder order, std::int64_t wanted);
void cpu_search(const Search& search);
void cpu_sample(const Sampling& sampling);
void cpu_largest(const Largest& largest);
void cpu_gather_patches(const Patching& patching);
void cpu_add_patches(const Patching& patching);

}  // namespace shardlab
