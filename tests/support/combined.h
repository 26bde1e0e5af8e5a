// combined.h - the reduction of terms, by the definition of each reduction: for tests that compare
// with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/reduce_op.h"

namespace shardlab {

/// One term after the other; of a mean their sum. Bit operations of floats are those of the whole
/// numbers that they hold.
template <typename T>
T combined(ReduceOp op, const std::vector<T>& terms) {
  T value = terms.at(0);
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const auto bits = [&](auto operation) {
      return static_cast<T>(
          operation(static_cast<std::int64_t>(value), static_cast<std::int64_t>(terms[i])));
    };
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        value += terms[i];
        break;
      case ReduceOp::kMax:
        value = std::max(value, terms[i]);
        break;
      case ReduceOp::kMin:
        value = std::min(value, terms[i]);
        break;
      case ReduceOp::kProduct:
        value *= terms[i];
        break;
      case ReduceOp::kBitAnd:
        value = bits(std::bit_and<>());
        break;
      case ReduceOp::kBitOr:
        value = bits(std::bit_or<>());
        break;
      case ReduceOp::kBitXor:
        value = bits(std::bit_xor<>());
        break;
    }
  }
  return value;
}

}  // namespace shardlab
