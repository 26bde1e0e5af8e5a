// halo.h - fetching neighbours' elements along one tensor dim: every rank of a group names the
// range that it needs, and gets exactly that.
#pragma once

#include <functional>

#include "comm/process_group.h"

namespace shardlab {

/// Elements [begin, end) of a tensor dim; empty when end <= begin.
struct DimRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool operator==(const DimRange&) const = default;
};
DimRange intersection(const DimRange& a, const DimRange& b);

/// Gives the range of a group rank; pure, so that all ranks agree on the sender of each row.
using RangeOf = std::function<DimRange(std::int64_t group_rank)>;

/// `local` holds owned(rank) of `dim`; the result holds needed(rank), in order. Owned ranges do not
/// overlap and cover the needed ones, from however many ranks. One batch in the group, none when no
/// rank needs more than it owns.
Tensor exchange_halo(const Tensor& local, std::size_t dim, ProcessGroup& group,
                     const RangeOf& owned, const RangeOf& needed);

}  // namespace shardlab
