// indexing.h - index(self, indices) and index_put(self, indices, values): the effect of the indices
// on dims, and both calls on one rank. One tensor or None per dim; a mask covers as many dims as it
// has.
#pragma once

#include <algorithm>
#include <span>

#include "schema/calls.h"
#include "schema/op_descriptor.h"

namespace shardlab {

struct OpRow;

/// The sources of the dims of an index call.
struct Indexing {
  Dims indexed;          ///< dims of self that have an index
  Dims broadcast;        ///< common shape of the indices
  bool adjacent = true;  ///< indexed dims are side by side
  /// The common shape replaces adjacent indexed dims, else it is put first.
  std::int64_t insert_at() const { return adjacent && !indexed.empty() ? indexed[0] : 0; }
  bool is_indexed(std::int64_t dim) const {
    return std::ranges::find(indexed, dim) != indexed.end();
  }
  /// The dim of the result for a dim of self without an index.
  std::int64_t output_dim(std::int64_t dim) const {
    if (dim < insert_at()) return dim;
    const auto before = std::ranges::count_if(indexed, [&](std::int64_t d) { return d < dim; });
    return dim - before + static_cast<std::int64_t>(broadcast.size());
  }
  /// The shape of the result for a self of this shape.
  Dims result_shape(const Dims& self) const;
};

/// `indices`: null where a dim has none. A mask counts for as many dims as it has, and for a list
/// of positions of unknown length. Fails with Value where the indices do not broadcast.
Indexing read_indices(const OpDescriptor& op, std::span<const TensorMeta* const> indices);

/// bool, and u8 as programs used to write it.
bool is_mask(const TensorMeta& index);
/// Fails with Unsupported: the elements that a mask chooses depend on data.
void refuse_masks(const OpDescriptor& op, std::span<const TensorMeta* const> indices);
/// Fails with Value for more indices than dims or another dtype.
void check_indices(const OpDescriptor& op, std::span<const TensorMeta* const> indices,
                   const TensorMeta& self);

/// Local programs of the rows: negative positions count from the end, others outside of their dim
/// fail with Value. If index_put is given a position twice, the last value stays.
Results index_locally(Calls& calls, const OpRow& row, const Arguments& args);
Results index_put_locally(Calls& calls, const OpRow& row, const Arguments& args);

}  // namespace shardlab
