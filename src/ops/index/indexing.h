// indexing.h - index(self, indices) and index_put(self, indices, values): what the indices say
// about dims, and both calls on one rank. One tensor or None per dim; a mask covers as many dims as
// it has.
#pragma once

#include <algorithm>
#include <span>

#include "schema/op_row.h"

namespace shardlab {

/// Where the dims of an index call come from.
struct Indexing {
  Dims indexed;          ///< dims of self that have an index
  Dims broadcast;        ///< common shape of the indices
  bool adjacent = true;  ///< indexed dims lie side by side
  /// The common shape takes the place of adjacent indexed dims, else it comes first.
  std::int64_t insert_at() const { return adjacent && !indexed.empty() ? indexed[0] : 0; }
  bool is_indexed(std::int64_t dim) const {
    return std::ranges::find(indexed, dim) != indexed.end();
  }
  /// Where a dim of self that has no index ends up in the result.
  std::int64_t output_dim(std::int64_t dim) const {
    if (dim < insert_at()) return dim;
    const auto before = std::ranges::count_if(indexed, [&](std::int64_t d) { return d < dim; });
    return dim - before + static_cast<std::int64_t>(broadcast.size());
  }
  /// Of the result, for a self of this shape.
  Dims result_shape(const Dims& self) const;
};

/// `indices`: null where a dim has none. A mask stands for as many dims as it has, and for a list
/// of positions of unknown length. Fails with Value where the indices do not broadcast.
Indexing read_indices(const OpDescriptor& op, std::span<const TensorMeta* const> indices);

/// bool, and u8 as programs used to write it.
bool is_mask(const TensorMeta& index);
/// Fails with Unsupported: which elements a mask chooses depends on data.
void refuse_masks(const OpDescriptor& op, std::span<const TensorMeta* const> indices);
/// Fails with Value for more indices than dims or another dtype.
void check_indices(const OpDescriptor& op, std::span<const TensorMeta* const> indices,
                   const TensorMeta& self);

/// Local programs of the rows: negative positions count from the end, others outside of their dim
/// fail with Value. Where index_put is given a position twice, the last value stays.
Results index_locally(Calls& calls, const OpRow& row, const Arguments& args);
Results index_put_locally(Calls& calls, const OpRow& row, const Arguments& args);

}  // namespace shardlab
