// Values that follow from positions: arange, linspace, eye, triangles. With a view the position in
// the global tensor counts.
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

// arange(end), arange(start, end) or arange(start, end, step): the numbers in front.
void arange_kernel(const KernelCall& call) {
  std::size_t numbers = 0;
  while (optional_scalar_arg(call, numbers) != nullptr && numbers < 3) ++numbers;
  const Scalar start = numbers > 1 ? scalar_arg(call, 0) : Scalar(0);
  const Scalar step = numbers > 2 ? scalar_arg(call, 2) : Scalar(1);
  if (is_integral(call.outputs[0].dtype()) && start.is_integral() && step.is_integral()) {
    // Unsigned: the product may wrap where the sum does not.
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

// linspace(start, end, steps): symmetric, so that both ends are exact.
void linspace_kernel(const KernelCall& call) {
  const double start = scalar_arg(call, 0).to_double(), end = scalar_arg(call, 1).to_double();
  const std::int64_t steps = int_arg(call, 2);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  from_positions<double>(call, [&](std::int64_t i) {
    return i < (steps + 1) / 2 ? start + static_cast<double>(i) * step
                               : end - static_cast<double>(steps - 1 - i) * step;
  });
}

void eye_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const std::int64_t columns = call.view != nullptr ? call.view->global_shape[1] : out.size(1);
  from_positions<std::int64_t>(
      call, [&](std::int64_t i) -> std::int64_t { return i / columns == i % columns; });
}

enum class Triangle { kLower, kUpper };

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
  table.set(KernelId::kLinspace, linspace_kernel);
  table.set(KernelId::kEye, eye_kernel);
  table.set(KernelId::kTril, triangle_kernel<Triangle::kLower>);
  table.set(KernelId::kTriu, triangle_kernel<Triangle::kUpper>);
}

}  // namespace shardlab
