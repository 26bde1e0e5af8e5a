// A copy of any layout into any other: dims of size 1 go, the others are sorted by the target's
// strides and joined where both sides allow it. What is left is one memcpy, a row at a time, or,
// where source and target are contiguous along different dims, a transposition in tiles.
#include "tensor/strided_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/inline_vector.h"

namespace shardlab {

namespace {

struct CopyDim {
  std::int64_t size;
  std::int64_t to;    // stride of the target, in elements
  std::int64_t from;  // stride of the source
};
using CopyDims = InlineVector<CopyDim, 6>;

struct Block16 {
  std::uint64_t words[2];
};

// Outermost first, ordered by the target's strides so that it is written front to back; dims that
// lie behind each other in both arrays become one.
CopyDims ordered_dims(std::span<const std::int64_t> shape, std::span<const std::int64_t> to,
                      std::span<const std::int64_t> from) {
  CopyDims dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) dims.push_back({shape[i], to[i], from[i]});
  }
  sort_dims(dims, [](const CopyDim& a, const CopyDim& b) { return a.to > b.to; });
  CopyDims merged;
  for (const CopyDim& dim : dims) {
    if (!merged.empty() && merged.back().to == dim.to * dim.size &&
        merged.back().from == dim.from * dim.size) {
      merged.back() = {merged.back().size * dim.size, dim.to, dim.from};
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}

template <typename T>
void copy_row(T* to, const T* from, const CopyDim& row) {
  if (row.to == 1 && row.from == 1) {
    std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(row.size) * sizeof(T));
  } else if (row.to == 1) {
    for (std::int64_t i = 0; i < row.size; ++i) to[i] = from[i * row.from];
  } else {
    for (std::int64_t i = 0; i < row.size; ++i) to[i * row.to] = from[i * row.from];
  }
}

// The source is contiguous along `outer`, the target along `inner`. Tiles go through a local block,
// so that both are touched in whole cache lines: columns of a power of two share one cache set.
template <typename T>
void copy_transposed(T* to, const T* from, const CopyDim& outer, const CopyDim& inner) {
  constexpr std::int64_t kTile = 32;
  T block[kTile][kTile];
  for (std::int64_t row = 0; row < outer.size; row += kTile) {
    const std::int64_t rows = std::min(kTile, outer.size - row);
    for (std::int64_t column = 0; column < inner.size; column += kTile) {
      const std::int64_t columns = std::min(kTile, inner.size - column);
      for (std::int64_t c = 0; c < columns; ++c) {
        const T* read = from + row + (column + c) * inner.from;
        for (std::int64_t r = 0; r < rows; ++r) block[r][c] = read[r];
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        T* line = to + (row + r) * outer.to + column * inner.to;
        for (std::int64_t c = 0; c < columns; ++c) line[c * inner.to] = block[r][c];
      }
    }
  }
}

template <typename T>
void copy_dims(T* to, const T* from, std::span<const CopyDim> dims) {
  if (dims.empty()) {
    *to = *from;
  } else if (dims.size() == 1) {
    copy_row(to, from, dims[0]);
  } else if (dims.size() == 2 && dims[0].from == 1 && dims[1].from != 1) {
    copy_transposed(to, from, dims[0], dims[1]);
  } else {
    for (std::int64_t i = 0; i < dims[0].size; ++i) {
      copy_dims(to + i * dims[0].to, from + i * dims[0].from, dims.subspan(1));
    }
  }
}

// The dim along which the source is contiguous goes next to the innermost one.
void prepare_transpose(CopyDims& dims) {
  if (dims.size() < 3 || dims.back().from == 1) return;
  const auto unit =
      std::find_if(dims.begin(), dims.end(), [](const CopyDim& dim) { return dim.from == 1; });
  if (unit != dims.end()) std::rotate(unit, unit + 1, dims.end() - 1);
}

template <typename T>
void copy_elements(void* to, const void* from, const CopyDims& dims) {
  copy_dims(static_cast<T*>(to), static_cast<const T*>(from), dims);
}

}  // namespace

void strided_copy(const StridedTarget& target, const StridedSource& source,
                  std::span<const std::int64_t> shape, std::int64_t element_bytes) {
  if (product(shape) == 0) return;
  CopyDims dims = ordered_dims(shape, target.stride, source.stride);
  prepare_transpose(dims);
  switch (element_bytes) {
    case 1:
      return copy_elements<std::uint8_t>(target.data, source.data, dims);
    case 2:
      return copy_elements<std::uint16_t>(target.data, source.data, dims);
    case 4:
      return copy_elements<std::uint32_t>(target.data, source.data, dims);
    case 8:
      return copy_elements<std::uint64_t>(target.data, source.data, dims);
    case 16:
      return copy_elements<Block16>(target.data, source.data, dims);
    default:
      check_invariant(false, "elements have 1, 2, 4, 8 or 16 bytes");
  }
}

}  // namespace shardlab
