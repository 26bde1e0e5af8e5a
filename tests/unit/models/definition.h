// definition.h - an op and its definition: the op under every placing of placed_at_random.h must
// give the definition's values and its derivatives.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schema/calls.h"
#include "tests/unit/models/dual.h"
#include "tests/unit/models/placed_at_random.h"

namespace shardlab::test {

/// An argument of an op.
struct Given {
  Plain values;
  bool leaf = true;  ///< a float with a gradient; else an integer
};
/// Floats between two bounds, no two alike; another row of numbers for each `start`.
Given floats(const Dims& shape, std::int64_t start, double from = -1, double to = 1);
Given integers(const Dims& shape, const std::vector<double>& values);

using Tensors = std::vector<DTensor>;
using Arrays = std::vector<DualArray>;

struct Definition {
  std::string op;
  std::vector<Given> given;
  /// The call's first tensor for these arguments; without it, all of them flattened one after the
  /// other.
  std::function<DTensor(const Tensors& x)> call = nullptr;
  std::function<DualArray(const Arrays& x)> loops;
};
void check_definitions(const std::vector<Definition>& definitions);

/// The first result of an op, which is the only tensor that counts.
DTensor first_of(const std::string& op, const Arguments& args);
ArgumentList ints(const std::vector<std::int64_t>& numbers);
ArgumentList tensors(const std::vector<DTensor>& list);

}  // namespace shardlab::test
