// strided_copy.h - element copies between strided host arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardlab {

/// A strided host array: first element and one stride per dim, in elements.
struct StridedTarget {
  void* data;
  std::span<const std::int64_t> stride;
};
struct StridedSource {
  const void* data;
  std::span<const std::int64_t> stride;
};

/// Sorts a few dims, `before(a, b)` first, equal ones in their old order; takes no memory.
void sort_dims(auto& dims, const auto& before) {
  for (std::size_t i = 1; i < dims.size(); ++i) {
    const auto moved = dims[i];
    std::size_t place = i;
    for (; place > 0 && before(moved, dims[place - 1]); --place) dims[place] = dims[place - 1];
    dims[place] = moved;
  }
}

/// target[i] = source[i] for every index i of `shape`; elements of 1, 2, 4, 8 or 16 bytes. Source
/// strides may be 0; the arrays do not overlap.
void strided_copy(const StridedTarget& target, const StridedSource& source,
                  std::span<const std::int64_t> shape, std::int64_t element_bytes);

}  // namespace shardlab
