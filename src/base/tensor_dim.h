// tensor_dim.h - tensor dims as users count them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardlab {

/// A dim counted from the end (-1: the last) as one counted from the front. A tensor without dims
/// counts as having one.
///   fails  Value: outside [-ndim, ndim)
std::int64_t wrap_dim(std::int64_t dim, std::size_t ndim);

}  // namespace shardlab
