// plain_loops.h - arrays of doubles and the few loops for working out models by hand: nothing of
// them is shared with the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/inline_vector.h"

namespace shardlab::test {

/// Row-major.
struct Plain {
  Dims shape;
  std::vector<double> values;

  double& at(std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
  double at(std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  double& at(std::int64_t i, std::int64_t j) { return at(i * shape[1] + j); }
  double at(std::int64_t i, std::int64_t j) const { return at(i * shape[1] + j); }
  double& at(std::int64_t i, std::int64_t j, std::int64_t k) {
    return at((i * shape[1] + j) * shape[2] + k);
  }
  double at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return at((i * shape[1] + j) * shape[2] + k);
  }
  double& at(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) {
    return at(((i * shape[1] + j) * shape[2] + k) * shape[3] + l);
  }
  double at(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) const {
    return at(((i * shape[1] + j) * shape[2] + k) * shape[3] + l);
  }
};

Plain zeros_of(const Dims& shape);
/// Between -1 and 1, another row of numbers for each `start`.
Plain numbers(const Dims& shape, std::int64_t start);
Plain transposed(const Plain& a);
/// [m, k] @ [k, n]; the others read the left or the right one as its transpose.
Plain product_of(const Plain& a, const Plain& b);
Plain product_at(const Plain& a, const Plain& b);  ///< a^T @ b
Plain product_bt(const Plain& a, const Plain& b);  ///< a @ b^T
Plain map(const Plain& a, const std::function<double(double)>& f);
Plain zip(const Plain& a, const Plain& b, const std::function<double(double, double)>& f);
double total(const Plain& a);
/// The sum of a matrix's rows.
Plain column_sums(const Plain& a);
/// The rows of a matrix, each with `bias` added.
Plain with_bias(Plain a, const Plain& bias);
/// Along the rows of a matrix.
Plain softmax_rows(const Plain& a);
/// The gradient of the rows before their softmax `p`; `flow` is the gradient after it.
Plain softmax_back(const Plain& p, const Plain& flow);

}  // namespace shardlab::test
