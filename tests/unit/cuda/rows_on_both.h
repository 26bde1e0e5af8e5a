// rows_on_both.h - tensors of every shape, dtype and layout in memory, for ops along one dim.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/cuda/on_both.h"

namespace shardlab::cuda {

/// Few different ones, so that many are equal.
inline Values keys_of(DType dtype, std::int64_t count) {
  const Values floats{3, -1, 0.0, 2, kNan, -0.0, 3, kInfinity, 0.5, kNan, -kInfinity, 2, 0.5, 1};
  const Values integers{3, 0, 2, 7, 3, 1, 0, 100, 2, 3, 3};
  const Values numbers = is_integral(dtype) || dtype == DType::kBool ? integers : floats;
  Values keys;
  for (std::int64_t i = 0; i < count; ++i) {
    keys.push_back(numbers[static_cast<std::size_t>(i * i + i / 3) % numbers.size()]);
    if (dtype == DType::kBool) keys.back() = keys.back() > 2 ? 1 : 0;
  }
  return keys;
}

struct Row {
  Dims shape;
  std::int64_t dim;
};
inline const std::vector<Row>& all_rows() {
  static const std::vector<Row> cases{
      {{}, 0},        {{}, -1},       {{1}, 0},          {{2}, 0},     {{7}, 0},
      {{8}, -1},      {{9}, 0},       {{3, 5}, 1},       {{5, 3}, 0},  {{4, 1}, 1},
      {{2, 9, 3}, 1}, {{2, 9, 3}, 0}, {{2, 1, 2, 6}, 3}, {{3, 64}, 1}, {{2, 131}, 1},
  };
  return cases;
}
inline std::int64_t size_along(const Row& tried) {
  if (tried.shape.empty()) return 1;
  const auto dims = static_cast<std::int64_t>(tried.shape.size());
  return tried.shape[static_cast<std::size_t>(tried.dim < 0 ? tried.dim + dims : tried.dim)];
}
inline Dims with_size(const Row& tried, std::int64_t size) {
  Dims shape = tried.shape;
  const auto dims = static_cast<std::int64_t>(shape.size());
  if (dims > 0)
    shape[static_cast<std::size_t>(tried.dim < 0 ? tried.dim + dims : tried.dim)] = size;
  return shape;
}

/// Calls visit(case, its tensor, its layout) for all shapes, dtypes and layouts in memory.
template <typename Visit>
void for_each_row(const Visit& visit) {
  for (const Row& tried : all_rows()) {
    for (const DType dtype : kDtypes) {
      for (const Lies lies : kAllWays) {
        CAPTURE(product(tried.shape));
        CAPTURE(tried.dim);
        CAPTURE(to_string(dtype));
        visit(tried, Given{tried.shape, dtype, keys_of(dtype, product(tried.shape)), lies});
      }
    }
  }
}

}  // namespace shardlab::cuda
