// local_view.h - the global elements that a rank's local tensor holds. Plain data, for kernels that
// need their position (random, embedding masks, argmax) and for the verifier.
#pragma once

#include <cstdint>
#include <vector>

#include "base/inline_vector.h"

namespace shardlab {

/// `size` consecutive global indices from `offset`; empty runs are left out.
struct IndexRun {
  std::int64_t offset;
  std::int64_t size;
  bool operator==(const IndexRun&) const = default;
};

/// Local index -> global index along one tensor dim: the runs concatenated. One run unless a
/// strided shard or a nested cut with another order is involved.
struct DimMap {
  InlineVector<IndexRun, 2> runs;

  /// Elements of this piece along the dim.
  std::int64_t local_size() const {
    std::int64_t size = 0;
    for (const IndexRun& run : runs) size += run.size;
    return size;
  }
  /// The global index of local index `local` in [0, local_size()).
  std::int64_t global_index(std::int64_t local) const {
    for (const IndexRun& run : runs) {
      if (local < run.size) return run.offset + local;
      local -= run.size;
    }
    return -1;
  }
  /// True when the piece has the global index `index`.
  bool holds(std::int64_t index) const {
    for (const IndexRun& run : runs) {
      if (index >= run.offset && index < run.offset + run.size) return true;
    }
    return false;
  }
};

/// A rank's piece of a tensor: the product of one DimMap per dim, in row-major order of local
/// indices.
struct LocalView {
  /// In elements; a dim's runs are within [0, global_shape[dim]) and never overlap.
  Dims global_shape;
  std::vector<DimMap> dims;  ///< one per tensor dim

  /// True when the piece has the element at the global `index`.
  bool holds(const Dims& index) const {
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
      if (!dims[dim].holds(index[dim])) return false;
    }
    return true;
  }
};

}  // namespace shardlab
