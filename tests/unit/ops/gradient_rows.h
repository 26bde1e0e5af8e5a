// gradient_rows.h - gradients of ops, with the numbers that PyTorch has for them.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/unit/dispatch/op_calls.h"

namespace shardlab::test {

using Leaves = std::vector<DTensor>;

struct Leaf {
  std::string_view placement;  ///< on a mesh of 4 ranks
  Dims shape;
  std::vector<double> values;
};

/// An op on leaves that require a gradient. The loss is the sum of the elements of its result times
/// 1, -2, 3, -4, ..., so that elements cannot change places unseen.
struct GradientRow {
  std::string_view name;
  std::vector<Leaf> leaves;
  std::function<DTensor(const Leaves&)> result;
  std::vector<std::vector<double>> gradients;  ///< of each leaf, as PyTorch 2.15 has them in f64
  std::vector<double> values = {};             ///< of the result; empty: not looked at
};

/// Compares each row on four ranks, once with replicas and once with the row's placements: 5 rows
/// of a tensor are cut as 2, 2, 1 and 0.
void check_gradients(std::span<const GradientRow> rows);

/// Number `which` of an op's results, or of the list that is its result.
DTensor piece(std::string_view op, Arguments args, std::size_t which = 0);
/// A replica, of integers if nothing else is said.
DTensor replica(Dims shape, const std::vector<double>& values, DType dtype = DType::kI64);

inline const std::vector<double> kA{0.5, -1.25, 2, 0.75, -0.5, 1.5, -2, 1, 0.25, -0.75};
inline const std::vector<double> kB{1.5, 0.5, -1, 0.75, 2, -1.5, -0.25, 1, -2, 0.5};
inline const std::vector<double> kPositive{0.5, 1.25, 2, 0.75, 3, 1.5, 0.25, 1, 2.5, 1.75};

}  // namespace shardlab::test
