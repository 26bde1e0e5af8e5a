// The one place where dims count from the end, so that all ops refuse dims out of range in the same
// words.
#include "base/tensor_dim.h"

#include <algorithm>

#include "base/error.h"

namespace shardlab {

std::int64_t wrap_dim(std::int64_t dim, std::size_t ndim) {
  const auto count = std::max<std::int64_t>(1, static_cast<std::int64_t>(ndim));
  if (dim >= -count && dim < count) return dim < 0 ? dim + count : dim;
  fail(Fix{count == 1 ? std::string("use 0, or -1, the last dim")
                      : fmt::format("use 0 to {}, or count from the last dim: -1 to {}", count - 1,
                                    -count)},
       "dim {} is out of range: it must lie in [{}, {}]", dim, -count, count - 1);
}

}  // namespace shardlab
