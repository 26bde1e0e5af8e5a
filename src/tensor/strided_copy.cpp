// A copy of any layout into any other: dims of size 1 are dropped, the others are sorted by the
// target's strides and joined where both sides allow it. The rest is one memcpy, a row at a time,
// or, where source and target are contiguous along different dims, a transposition in tiles.
#include "tensor/strided_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/inline_vector.h"
#include "tensor/past_caches.h"
#include "tensor/turn_square.h"

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

// The tile that is transposed at a time: rows of the target by columns, which are rows of the
// source. A part of four cache lines of the source is read at once, where there are as many rows,
// and written as four of the target.
template <typename T>
constexpr std::int64_t kTileRows = 256 / sizeof(T);
template <typename T>
constexpr std::int64_t kTileColumns = 256 / sizeof(T);

// A tile of `rows` rows and kTileColumns columns, a square at a time; of the source each cache line
// is touched once.
template <typename T, std::int64_t rows>
[[gnu::always_inline]] inline void turn_squares(T* to, std::int64_t to_step, const T* from,
                                                std::int64_t from_step) {
  constexpr std::int64_t kSide = kLanesTurned<T>, kLine = kCacheLine / sizeof(T);
  for (std::int64_t c = 0; c < kTileColumns<T>; c += kSide) {
    for (std::int64_t line = 0; line < rows; line += kLine) {
      for (std::int64_t r = line; r < line + kLine; r += kSide) {
        turn_square(to + r * to_step + c, to_step, from + r + c * from_step, from_step);
      }
    }
  }
}

// Rows a large power of two apart share few places in a cache: they are written whole, from a local
// block.
template <typename T, std::int64_t rows>
void turn_tile(T* to, std::int64_t to_step, const T* from, std::int64_t from_step, bool past) {
  constexpr std::int64_t kSharing = 512;
  if (!past && to_step * static_cast<std::int64_t>(sizeof(T)) % kSharing != 0) {
    return turn_squares<T, rows>(to, to_step, from, from_step);
  }
  alignas(64) T block[rows][kTileColumns<T>];
  turn_squares<T, rows>(block[0], kTileColumns<T>, from, from_step);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (past) {
      write_past_caches(to + r * to_step, block[r], sizeof(block[r]));
    } else {
      std::memcpy(to + r * to_step, block[r], sizeof(block[r]));
    }
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

// Columns of the target before the first that begins a cache line in all of its rows; -1: none
// does.
template <typename T>
std::int64_t columns_before_line(const T* to, const CopyDim& outer) {
  constexpr std::uintptr_t kLine = kCacheLine;
  const std::uintptr_t within = reinterpret_cast<std::uintptr_t>(to) % kLine;
  if (outer.to * static_cast<std::int64_t>(sizeof(T)) % kLine != 0 || within % sizeof(T) != 0) {
    return -1;
  }
  return static_cast<std::int64_t>((kLine - within) % kLine / sizeof(T));
}

// Whole tiles of rows and columns; the rest of either is for turn_part.
template <typename T, std::int64_t rows>
void turn_tiles(T* to, const T* from, const CopyDim& outer, const CopyDim& inner, bool ahead,
                bool past) {
  constexpr std::int64_t kColumns = kTileColumns<T>, kLine = kCacheLine / sizeof(T);
  for (std::int64_t row = 0; row < outer.size; row += rows) {
    for (std::int64_t column = 0; column < inner.size; column += kColumns) {
      const T* source = from + row + column * inner.from;
      // The next tile is fetched meanwhile, not as near as this one.
      for (std::int64_t c = 0; ahead && column + kColumns < inner.size && c < kColumns; ++c) {
        const T* next = source + (kColumns + c) * inner.from;
        for (std::int64_t i = 0; i < rows; i += kLine) __builtin_prefetch(next + i, 0, 2);
      }
      turn_tile<T, rows>(to + row * outer.to + column, outer.to, source, inner.from, past);
    }
  }
}

// The source is contiguous along `outer`, the target mostly along `inner`. A source at least as
// large as half a core's cache is fetched ahead; targets beyond all caches are written past them.
template <typename T>
void copy_transposed(T* to, const T* from, const CopyDim& outer, const CopyDim& inner) {
  std::int64_t rows = 0, first = 0, columns = 0;
  if constexpr (kByVectors<T>) {
    constexpr std::int64_t kAheadBytes = std::int64_t{512} << 10;
    const std::int64_t bytes = outer.size * inner.size * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t lead = is_beyond_caches(bytes) ? columns_before_line(to, outer) : -1;
    first = std::clamp<std::int64_t>(lead, 0, inner.size);
    constexpr std::int64_t kRows = kTileRows<T>, kFewRows = kRows / 2;
    rows = outer.size - outer.size % kFewRows;
    columns = inner.size - first - (inner.size - first) % kTileColumns<T>;
    if (inner.to != 1 || rows == 0 || columns == 0) rows = first = columns = 0;
    const std::int64_t most = rows - rows % kRows;
    const CopyDim across{columns, inner.to, inner.from};
    T* target = to + first;
    const T* source = from + first * inner.from;
    const bool ahead = bytes >= kAheadBytes, past = lead >= 0;
    turn_tiles<T, kRows>(target, source, {most, outer.to, 1}, across, ahead, past);
    turn_tiles<T, kFewRows>(target + most * outer.to, source + most, {rows - most, outer.to, 1},
                            across, ahead, past);
    if (past) end_writes_past_caches();
  }
  const auto part = [&](std::int64_t row, std::int64_t height, std::int64_t column,
                        std::int64_t width) {
    turn_part(to + row * outer.to + column * inner.to, from + row + column * inner.from,
              {height, outer.to, 1}, {width, inner.to, inner.from});
  };
  part(0, rows, 0, first);
  part(0, rows, first + columns, inner.size - first - columns);
  part(rows, outer.size - rows, 0, inner.size);
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
