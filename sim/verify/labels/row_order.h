// row_order.h - a test for values that have the right rows in another order. Pure. Private to the
// files that verify.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/verify/global_value.h"

namespace shardlab {

struct RowOrder {
  std::size_t dim = 0;
  std::vector<std::int64_t> rows;  ///< of the right value, in the order of the other one
};

/// The first dim along which `got` has the rows of `whole` in another order, each once; nothing if
/// there is none, or if rows are alike. Numbers this close, relative to the largest, count as
/// equal.
std::optional<RowOrder> row_order(const GlobalValue& got, const GlobalValue& whole,
                                  double relative);

/// The rows of `whole` along one dim in the order in which `got`, of any dtype, has them; nothing
/// if a row is missing or like another one.
std::optional<std::vector<std::int64_t>> row_order(const GlobalValue& got, const GlobalValue& whole,
                                                   std::size_t dim, double relative);

/// These rows of `whole` along a dim, in this order.
GlobalValue in_order(const GlobalValue& whole, std::size_t dim,
                     const std::vector<std::int64_t>& order);

}  // namespace shardlab
