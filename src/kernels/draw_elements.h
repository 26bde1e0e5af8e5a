// draw_elements.h - numbers drawn for each element by its place in the whole tensor.
#pragma once

#include <string_view>

#include "kernels/kernel_args.h"
#include "kernels/philox.h"
#include "kernels/positions.h"
#include "kernels/scratch.h"

namespace shardlab {

/// Fails with Value: the number `name` of a law is not `wanted`.
[[noreturn]] void refuse_law(std::string_view op, std::string_view name, double value,
                             std::string_view wanted);

/// results[i] = make(words of element i, i) in row-major order, stored in `out`.
template <typename T, typename Make>
void draw_elements(const KernelCall& call, const Tensor& out, Make make) {
  const RowMajorOutput<T> result(out);
  for_each_run(out, call.view, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    const std::uint64_t first = call.random.offset + static_cast<std::uint64_t>(global);
    for (std::int64_t i = 0; i < count; ++i) {
      const PhiloxWords words =
          element_words(call.random.seed, first + static_cast<std::uint64_t>(i));
      result.data()[local + i] = make(words, local + i);
    }
  });
  result.store();
}

}  // namespace shardlab
