// The places of triangles. With a view the position in the global tensor counts.
#include <algorithm>
#include <vector>

#include "kernels/functors.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/positions.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

// results[i] = make(global index of element i), stored in `out`.
template <typename T, typename Make>
void from_positions(const KernelCall& call, Make make) {
  const Tensor& out = call.outputs[0];
  const RowMajorOutput<T> result(out);
  for_each_run(out, call.view, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) result.data()[local + i] = make(global + i);
  });
  result.store();
}

enum class Triangle { kLower, kUpper };

// tril_indices or triu_indices(rows, columns, offset): a row of row numbers and one of columns.
template <Triangle kept>
void triangle_indices_kernel(const KernelCall& call) {
  const std::int64_t rows = int_arg(call, 0), columns = int_arg(call, 1), offset = int_arg(call, 2);
  std::vector<std::int64_t> firsts(static_cast<std::size_t>(rows) + 1, 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t cut =
        kept == Triangle::kLower
            ? std::clamp<std::int64_t>(sum_of(row + 1, offset), 0, columns)
            : columns - std::clamp<std::int64_t>(sum_of(row, offset), 0, columns);
    firsts[static_cast<std::size_t>(row) + 1] = firsts[static_cast<std::size_t>(row)] + cut;
  }
  const std::int64_t count = firsts.back();
  from_positions<std::int64_t>(call, [&](std::int64_t i) {
    const std::int64_t place = i % count;
    const auto next = std::upper_bound(firsts.begin(), firsts.end(), place);
    const std::int64_t row = next - firsts.begin() - 1;
    if (i < count) return row;
    const std::int64_t within = place - firsts[static_cast<std::size_t>(row)];
    const std::int64_t skipped =
        kept == Triangle::kLower ? 0 : std::clamp<std::int64_t>(sum_of(row, offset), 0, columns);
    return skipped + within;
  });
}

}  // namespace

void add_sequence_kernels(CpuKernelTable& table) {
  table.set(KernelId::kTrilIndices, triangle_indices_kernel<Triangle::kLower>);
  table.set(KernelId::kTriuIndices, triangle_indices_kernel<Triangle::kUpper>);
}

}  // namespace shardlab
