// Values that follow from positions: arange, linspace, eye, triangles. With a view the position in
// the global tensor counts.
#include <algorithm>
#include <vector>

#include "kernels/functors.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/position_laws.h"
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

// arange(end), arange(start, end) or arange(start, end, step): the numbers in front.
void arange_kernel(const KernelCall& call) {
  std::size_t numbers = 0;
  while (optional_scalar_arg(call, numbers) != nullptr && numbers < 3) ++numbers;
  const Scalar start = numbers > 1 ? scalar_arg(call, 0) : Scalar(0);
  const Scalar step = numbers > 2 ? scalar_arg(call, 2) : Scalar(1);
  if (is_integral(call.outputs[0].dtype())) {
    // Integers count in whole steps, whatever the numbers are; their count follows from the numbers
    // as given. Unsigned: the product may wrap where the sum does not.
    const auto first = static_cast<std::uint64_t>(start.to_int());
    const auto stride = static_cast<std::uint64_t>(step.to_int());
    return from_positions<std::int64_t>(call, [&](std::int64_t i) {
      return static_cast<std::int64_t>(first + static_cast<std::uint64_t>(i) * stride);
    });
  }
  from_positions<double>(call, [&](std::int64_t i) {
    return start.to_double() + static_cast<double>(i) * step.to_double();
  });
}

double end_arg(const KernelCall& call, std::size_t index) {
  const Scalar& end = scalar_arg(call, index);
  return is_integral(call.outputs[0].dtype()) ? static_cast<double>(end.to_int()) : end.to_double();
}

}  // namespace

EvenSteps even_steps(const KernelCall& call) {
  return {end_arg(call, 0), end_arg(call, 1), int_arg(call, 2)};
}

PowerSteps power_steps(const KernelCall& call) {
  return {even_steps(call), scalar_arg(call, 3).to_double()};
}

RaisedCosine raised_cosine(const KernelCall& call) {
  const std::int64_t length = int_arg(call, 0);
  const Scalar* periodic = optional_scalar_arg(call, 1);
  return {length, periodic == nullptr || periodic->to_bool() ? length : length - 1};
}

namespace {

template <auto sequence_of>
void sequence_kernel(const KernelCall& call) {
  const auto at = sequence_of(call);
  from_positions<double>(call, [&](std::int64_t i) { return at(i); });
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

void eye_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const std::int64_t columns = call.view != nullptr ? call.view->global_shape[1] : out.size(1);
  from_positions<std::int64_t>(
      call, [&](std::int64_t i) -> std::int64_t { return i / columns == i % columns; });
}

// tril or triu(self, diagonal) of the last two dims.
template <Triangle kept>
void triangle_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  convert_tensor(out, tensor_arg(call, 0));
  const auto dims = static_cast<std::size_t>(out.dim());
  const std::int64_t rows = out.size(dims - 2), columns = out.size(dims - 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t edge = row + int_arg(call, 1) + (kept == Triangle::kLower ? 1 : 0);
    const std::int64_t cut = std::clamp<std::int64_t>(edge, 0, columns);
    const std::int64_t first = kept == Triangle::kLower ? cut : 0;
    const std::int64_t size = kept == Triangle::kLower ? columns - cut : cut;
    if (size == 0) continue;
    fill_tensor(out.narrow(dims - 2, row, 1).narrow(dims - 1, first, size), Scalar(0));
  }
}

}  // namespace

void add_sequence_kernels(KernelTable& table) {
  table.set(KernelId::kArange, arange_kernel);
  table.set(KernelId::kLinspace, sequence_kernel<even_steps>);
  table.set(KernelId::kLogspace, sequence_kernel<power_steps>);
  table.set(KernelId::kHannWindow, sequence_kernel<raised_cosine>);
  table.set(KernelId::kTrilIndices, triangle_indices_kernel<Triangle::kLower>);
  table.set(KernelId::kTriuIndices, triangle_indices_kernel<Triangle::kUpper>);
  table.set(KernelId::kEye, eye_kernel);
  table.set(KernelId::kTril, triangle_kernel<Triangle::kLower>);
  table.set(KernelId::kTriu, triangle_kernel<Triangle::kUpper>);
}

}  // namespace shardlab
