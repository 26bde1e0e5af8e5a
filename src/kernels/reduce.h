// reduce.h - shared by the reduction kernels: one result per row, stored in the output.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/rows.h"

namespace shardlab {

/// output element i = reduce(row i, elements in it).
template <typename T, typename Result, typename Reduce>
void reduce_rows(const Tensor& out, const Tensor& source, const DimMask& reduced, Reduce reduce) {
  Rows<T> rows(source, reduced);
  const auto results = scratch<Result>(rows.count());
  for (std::int64_t i = 0; i < rows.count(); ++i) results[i] = reduce(rows.row(i), rows.size());
  store_row_major(out, results.get(), dtype_of<Result>());
}

}  // namespace shardlab
