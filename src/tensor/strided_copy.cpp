// A copy of any layout into any other: dims of size 1 go, the others are sorted by the target's
// strides and joined where both sides allow it. What is left is one memcpy, a row at a time, or,
// where source and target are contiguous along different dims, a transposition in tiles.
#include "tensor/strided_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#ifdef __AVX__
#include <immintrin.h>
#endif

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

// Vectors of elements that a matrix is turned by, where there are enough in one.
#ifdef __AVX__
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif
template <typename T>
constexpr bool kByVectors = sizeof(T) <= 8 && sizeof(T) >= 2;
template <typename T>
constexpr int kLanes = sizeof(T) == 2 ? 8 : static_cast<int>(kVectorBytes / sizeof(T));

// Of each 2 `half` lanes the upper half of `a` changes places with the lower half of `b`.
template <int half, typename Lanes, int... lane>
inline void exchange_halves(Lanes& a, Lanes& b, std::integer_sequence<int, lane...>) {
  constexpr int kCount = sizeof...(lane);
  const Lanes first =
      __builtin_shufflevector(a, b, (lane / half % 2 == 0 ? lane : kCount + lane - half)...);
  b = __builtin_shufflevector(a, b, (lane / half % 2 == 0 ? lane + half : kCount + lane)...);
  a = first;
}

template <int half, typename Lanes, int count>
inline void turn_lanes(Lanes (&rows)[count]) {
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    if (i / half % 2 != 0) continue;
    exchange_halves<half>(rows[i], rows[i + half], std::make_integer_sequence<int, count>{});
  }
  if constexpr (half > 1) turn_lanes<half / 2>(rows);
}

// to[r][c] = from[c][r] for kLanes rows and columns; steps between rows.
template <typename T>
inline void turn_square(T* to, std::int64_t to_step, const T* from, std::int64_t from_step) {
  constexpr int kCount = kLanes<T>;
  typedef T Lanes __attribute__((vector_size(kCount * sizeof(T))));
  Lanes rows[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) std::memcpy(&rows[i], from + i * from_step, sizeof(Lanes));
  turn_lanes<kCount / 2>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) std::memcpy(to + i * to_step, &rows[i], sizeof(Lanes));
}

// What is turned at a time: rows of the target by columns, which are rows of the source. A part of
// two cache lines of the source is read at once, and written as four of the target.
template <typename T>
constexpr std::int64_t kTileRows = 128 / sizeof(T);
template <typename T>
constexpr std::int64_t kTileColumns = 256 / sizeof(T);

// Writes `bytes` that begin a cache line, past the caches where processors can: `to` is not read
// first, and what was read before stays.
void write_past_caches(void* to, const void* from, std::size_t bytes) {
#ifdef __AVX__
  for (std::size_t i = 0; i < bytes; i += sizeof(__m256i)) {
    __m256i words;
    std::memcpy(&words, static_cast<const std::byte*>(from) + i, sizeof(words));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(static_cast<std::byte*>(to) + i), words);
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

// Writes that went past the caches come before all that follow.
void end_writes_past_caches() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

// A tile of kTileRows rows and kTileColumns columns through a local block: rows that are a power of
// two apart share few places in a cache, so that each line is touched once.
template <typename T>
void turn_tile(T* to, std::int64_t to_step, const T* from, std::int64_t from_step, bool past) {
  constexpr std::int64_t kSide = kLanes<T>, kLine = 64 / sizeof(T);
  constexpr std::int64_t kRows = kTileRows<T>, kColumns = kTileColumns<T>;
  alignas(64) T block[kRows][kColumns];
  for (std::int64_t c = 0; c < kColumns; c += kSide) {
    for (std::int64_t line = 0; line < kRows; line += kLine) {
      for (std::int64_t r = line; r < line + kLine; r += kSide) {
        turn_square(&block[r][c], kColumns, from + r + c * from_step, from_step);
      }
    }
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
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
  constexpr std::uintptr_t kLine = 64;
  const std::uintptr_t within = reinterpret_cast<std::uintptr_t>(to) % kLine;
  if (outer.to * static_cast<std::int64_t>(sizeof(T)) % kLine != 0 || within % sizeof(T) != 0) {
    return -1;
  }
  return static_cast<std::int64_t>((kLine - within) % kLine / sizeof(T));
}

// Whole tiles of rows and columns; what is left of either is for turn_part.
template <typename T>
void turn_tiles(T* to, const T* from, const CopyDim& outer, const CopyDim& inner, bool large,
                bool past) {
  constexpr std::int64_t kRows = kTileRows<T>, kColumns = kTileColumns<T>;
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t row = 0; row < outer.size; row += kRows) {
    for (std::int64_t column = 0; column < inner.size; column += kColumns) {
      const T* source = from + row + column * inner.from;
      // Of large matrices the next tile is fetched meanwhile, not as near as this one.
      for (std::int64_t c = 0; large && column + kColumns < inner.size && c < kColumns; ++c) {
        const T* next = source + (kColumns + c) * inner.from;
        for (std::int64_t i = 0; i < kRows; i += kLine) __builtin_prefetch(next + i, 0, 2);
      }
      turn_tile(to + row * outer.to + column, outer.to, source, inner.from, past);
    }
  }
}

// The source is contiguous along `outer`, the target mostly along `inner`. Targets beyond what a
// core's caches hold are written past them.
template <typename T>
void copy_transposed(T* to, const T* from, const CopyDim& outer, const CopyDim& inner) {
  std::int64_t rows = 0, first = 0, columns = 0;
  if constexpr (kByVectors<T>) {
    constexpr std::int64_t kLargeBytes = std::int64_t{8} << 20;
    const bool large =
        outer.size * inner.size >= kLargeBytes / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t lead = large ? columns_before_line(to, outer) : -1;
    first = std::clamp<std::int64_t>(lead, 0, inner.size);
    rows = outer.size - outer.size % kTileRows<T>;
    columns = inner.size - first - (inner.size - first) % kTileColumns<T>;
    if (inner.to != 1 || rows == 0 || columns == 0) rows = first = columns = 0;
    turn_tiles(to + first, from + first * inner.from, {rows, outer.to, 1},
               {columns, inner.to, inner.from}, large, lead >= 0);
    if (lead >= 0) end_writes_past_caches();
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
