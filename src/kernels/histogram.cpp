// Histograms.
#include <algorithm>
#include <vector>

#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

// histc(self, bins, min, max): without bounds those of the elements; elements beyond them are not
// counted.
void histc_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const std::int64_t bins = int_arg(call, 1);
  const auto rounded = [&](double number) {
    std::byte element[16];
    convert_run({element, 1, self.dtype()}, {&number, 1, DType::kF64}, 1);
    convert_run({&number, 1, DType::kF64}, {element, 1, self.dtype()}, 1);
    return number;
  };
  // Bounds are elements, too.
  double low = rounded(scalar_arg(call, 2).to_double());
  double high = rounded(scalar_arg(call, 3).to_double());
  const RowMajor<double> all(self);
  const double* const first = all.data();
  const double* const last = first + self.numel();
  if (low == high && first != last) {
    low = *std::min_element(first, last);
    high = *std::max_element(first, last);
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  std::vector<double> counts(static_cast<std::size_t>(bins), 0);
  for (const double* x = first; x != last; ++x) {
    if (!(*x >= low && *x <= high)) continue;
    // Every step is rounded to the dtype, as in the reference.
    const double part = rounded(rounded(*x - low) * rounded(static_cast<double>(bins)));
    const auto bin = static_cast<std::int64_t>(rounded(part / rounded(high - low)));
    ++counts[static_cast<std::size_t>(std::min(bin, bins - 1))];
  }
  store_row_major(call.outputs[0], counts.data(), DType::kF64);
}

}  // namespace

void add_histogram_kernels(CpuKernelTable& table) { table.set(KernelId::kHistc, histc_kernel); }

}  // namespace shardlab
