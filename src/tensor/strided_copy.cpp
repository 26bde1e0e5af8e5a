// A copy of any layout into any other: dims of size 1 are dropped, the others are sorted by the
// target's strides and joined where both sides allow it. The rest is one memcpy, a row at a time,
// or, where source and target are contiguous along different dims, a transposition in tiles.
#include "tensor/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/inline_vector.h"

namespace shardlab {

namespace {

/// Bytes of the vectors that transpose a matrix, whether they can for a type, and how many elements
/// a vector has.
#ifdef __AVX__
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif
template <typename T>
constexpr bool kByVectors = std::is_integral_v<T> && sizeof(T) >= 2;
template <typename T>
constexpr int kLanesTurned = sizeof(T) == 2 ? 8 : static_cast<int>(kVectorBytes / sizeof(T));

/// The upper half of each 2 `half` lanes of `a` changes places with the lower half of `b`.
template <int half, typename Lanes, int... lane>
void exchange_halves(Lanes& a, Lanes& b, std::integer_sequence<int, lane...>) {
  constexpr int kCount = sizeof...(lane);
  const Lanes first =
      __builtin_shufflevector(a, b, (lane / half % 2 == 0 ? lane : kCount + lane - half)...);
  b = __builtin_shufflevector(a, b, (lane / half % 2 == 0 ? lane + half : kCount + lane)...);
  a = first;
}

template <int half, typename Lanes, int count>
void turn_lanes(Lanes (&rows)[count]) {
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    if (i / half % 2 != 0) continue;
    exchange_halves<half>(rows[i], rows[i + half], std::make_integer_sequence<int, count>{});
  }
  if constexpr (half > 1) turn_lanes<half / 2>(rows);
}

/// to[r][c] = from[c][r] for kLanesTurned rows and columns; steps between rows.
template <typename T>
void turn_square(T* to, std::int64_t to_step, const T* from, std::int64_t from_step) {
  constexpr int kCount = kLanesTurned<T>;
  typedef T Lanes __attribute__((vector_size(kCount * sizeof(T))));
  Lanes rows[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) std::memcpy(&rows[i], from + i * from_step, sizeof(Lanes));
  turn_lanes<kCount / 2>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) std::memcpy(to + i * to_step, &rows[i], sizeof(Lanes));
}

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
// follow each other in both arrays become one.
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
  } else if (row.to == 1 && row.from == 0) {
    std::fill_n(to, row.size, *from);
  } else if (row.to == 1) {
    for (std::int64_t i = 0; i < row.size; ++i) to[i] = from[i * row.from];
  } else {
    for (std::int64_t i = 0; i < row.size; ++i) to[i * row.to] = from[i * row.from];
  }
}

// The side of a tile that is transposed at a time: two cache lines, which are read once.
template <typename T>
constexpr std::int64_t kTile = 128 / sizeof(T);

// A tile, a square at a time. Rows a large power of two apart share few places in a cache: they are
// written whole, from a local block.
template <typename T>
void turn_tile(T* to, std::int64_t to_step, const T* from, std::int64_t from_step) {
  constexpr std::int64_t kSharing = 512, kSide = kLanesTurned<T>;
  const bool shares = to_step * static_cast<std::int64_t>(sizeof(T)) % kSharing == 0;
  T block[kTile<T>][kTile<T>];
  T* const into = shares ? block[0] : to;
  const std::int64_t step = shares ? kTile<T> : to_step;
  for (std::int64_t c = 0; c < kTile<T>; c += kSide) {
    for (std::int64_t r = 0; r < kTile<T>; r += kSide) {
      turn_square(into + r * step + c, step, from + r + c * from_step, from_step);
    }
  }
  for (std::int64_t r = 0; shares && r < kTile<T>; ++r) {
    std::memcpy(to + r * to_step, block[r], sizeof(block[r]));
  }
}

// Any number of rows and columns through a local block, so that both sides are touched in whole
// cache lines.
template <typename T>
void turn_part(T* to, const T* from, const CopyDim& outer, const CopyDim& inner) {
  constexpr std::int64_t kSide = 32;
  T block[kSide][kSide];
  for (std::int64_t row = 0; row < outer.size; row += kSide) {
    const std::int64_t rows = std::min(kSide, outer.size - row);
    for (std::int64_t column = 0; column < inner.size; column += kSide) {
      const std::int64_t columns = std::min(kSide, inner.size - column);
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

// The source is contiguous along `outer`, the target mostly along `inner`.
template <typename T>
void copy_transposed(T* to, const T* from, const CopyDim& outer, const CopyDim& inner) {
  std::int64_t rows = 0, columns = 0;
  if constexpr (kByVectors<T>) {
    if (inner.to == 1) {
      rows = outer.size - outer.size % kTile<T>;
      columns = inner.size - inner.size % kTile<T>;
    }
    for (std::int64_t row = 0; row < rows; row += kTile<T>) {
      for (std::int64_t column = 0; column < columns; column += kTile<T>) {
        turn_tile(to + row * outer.to + column, outer.to, from + row + column * inner.from,
                  inner.from);
      }
    }
  }
  turn_part(to + columns * inner.to, from + columns * inner.from, {rows, outer.to, 1},
            {inner.size - columns, inner.to, inner.from});
  turn_part(to + rows * outer.to, from + rows, {outer.size - rows, outer.to, 1}, inner);
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

// Moves the dim along which the source is contiguous next to the innermost one.
void prepare_transpose(CopyDims& dims) {
  if (dims.size() < 3 || dims.back().from == 1) return;
  const auto unit =
      std::find_if(dims.begin(), dims.end(), [](const CopyDim& dim) { return dim.from == 1; });
  if (unit != dims.end()) std::rotate(unit, unit + 1, dims.end() - 1);
}

template <typename T>
void copy_elements(void* to, const void* from, const CopyDims& dims) {
  // Elements of a file begin anywhere.
  using Bytes = std::array<std::byte, sizeof(T)>;
  const auto at = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (at % alignof(T) != 0)
    return copy_dims(static_cast<Bytes*>(to), static_cast<const Bytes*>(from), dims);
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
