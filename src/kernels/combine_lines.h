// combine_lines.h - lines of elements as a reduction takes them: mapped, one by one or as vectors,
// and combined into a line of results. Pure.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/column_lines.h"
#include "kernels/functors.h"
#include "kernels/vectors.h"

namespace shardlab {

/// Whether NaN decides the result of Op, so that it is faster to search it first.
template <typename Op, typename T>
concept NanDecides = std::is_floating_point_v<T> && requires(VectorOf<T> vector) {
  Op::template combine_numbers<T>(vector, vector);
};

/// Whether a line of rows that are side by side gives several of its elements at once.
template <typename Line, typename T>
concept FillsVectors = std::is_floating_point_v<T> && requires(const Line& line, VectorOf<T>& to) {
  line.vector(0, to);
};

/// A line may be a pointer, or anything that gives a T for [c].
template <typename Op, typename T, typename Line>
void combine_into(T* to, const Line& other, std::int64_t columns) {
  std::int64_t begin = 0;
  if constexpr (FillsVectors<Line, T>) {
    for (; begin + kWidthOf<T> <= columns; begin += kWidthOf<T>) {
      VectorOf<T> value, part;
      load_vector<T>(value, to + begin);
      other.vector(begin, part);
      Op::template combine_vectors<T>(value, part);
      store_vector<T>(to + begin, value);
    }
  }
#pragma GCC ivdep
  for (std::int64_t c = begin; c < columns; ++c) to[c] = Op::combine(to[c], other[c]);
}

/// Several rows that one lane takes in: it is read and written once for all of them.
template <typename Op, typename T, typename Line>
void combine_into(T* to, const Line (&others)[kRowsTogether], std::int64_t columns) {
  const Line first = others[0], second = others[1], third = others[2], fourth = others[3];
  std::int64_t begin = 0;
  if constexpr (FillsVectors<Line, T>) {
    // Vectors that compilers make for bf16 are slower.
    for (; begin + kWidthOf<T> <= columns; begin += kWidthOf<T>) {
      VectorOf<T> value, part;
      load_vector<T>(value, to + begin);
#pragma GCC unroll 4
      for (const Line& line : others) {
        line.vector(begin, part);
        Op::template combine_vectors<T>(value, part);
      }
      store_vector<T>(to + begin, value);
    }
  }
#pragma GCC ivdep
  for (std::int64_t c = begin; c < columns; ++c) {
    const T half = Op::combine(Op::combine(to[c], first[c]), second[c]);
    to[c] = Op::combine(Op::combine(half, third[c]), fourth[c]);
  }
}

/// The same where none is NaN, in vectors that a line fills in with vector(c, to). Returns whether
/// one is NaN: the combined values are then invalid.
template <typename Op, typename T, typename Line>
bool combine_numbers_into(T* to, const Line (&others)[kRowsTogether], std::int64_t columns) {
  constexpr std::int64_t kWidth = kWidthOf<T>;
  MaskOf<T> nan{};
  bool spoilt = false;
  std::int64_t c = 0;
  for (; c + kWidth <= columns; c += kWidth) {
    VectorOf<T> value, part[kRowsTogether];
    load_vector<T>(value, to + c);
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kRowsTogether; ++i) {
      others[i].vector(c, part[i]);
      Op::template combine_numbers<T>(value, part[i]);
    }
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kRowsTogether; i += 2) note_nan<T>(nan, part[i], part[i + 1]);
    store_vector<T>(to + c, value);
  }
  for (; c < columns; ++c) {
    for (std::int64_t i = 0; i < kRowsTogether; ++i) {
      spoilt |= is_nan(others[i][c]);
      to[c] = Op::combine(to[c], others[i][c]);
    }
  }
  return spoilt || any_of<T>(nan);
}

/// Elements of one line, while those of the next one, `step` elements behind, are fetched:
/// processors fetch ahead by themselves within a page only.
template <typename T, typename Source = T>
struct FetchedLine {
  const Source* data;
  std::int64_t step;

  T operator[](std::int64_t c) const { return widened<T>(data[c]); }
  template <typename Vector>
  [[gnu::always_inline]] void vector(std::int64_t c, Vector& to) const {
    __builtin_prefetch(data + step + c);
    load_vector<T>(to, data + c);
  }
};

/// Leaves a row as it is.
struct Unchanged {
  template <typename T>
  T operator()(T value, std::int64_t) const {
    return value;
  }
  template <typename Vector>
  void vector(Vector&, std::int64_t) const {}
};

/// Whether a map of elements has a form for vectors, too, which it changes: vector(values, row).
template <typename Map, typename T, typename Result>
concept MapsVectors = std::is_same_v<T, Result> && requires(const Map& map, VectorOf<T> values) {
  map.vector(values, std::int64_t{});
};

/// Elements of a row as they are combined: map(element as T, row), one by one and as vectors.
template <typename Source, typename T, typename Result, typename Map>
struct MappedLine {
  const Source* data;
  const Map& map;
  std::int64_t row;

  Result operator()(std::int64_t i) const { return map(widened<T>(data[i]), row); }
  template <typename Vector>
  void operator()(std::int64_t i, Vector& to) const {
    if constexpr (MapsVectors<Map, T, Result>) {
      load_vector<T>(to, data + i);
      map.vector(to, row);
    } else {
      Result values[kWidthOf<Result>];
      for (std::int64_t k = 0; k < kWidthOf<Result>; ++k) values[k] = (*this)(i + k);
      load_vector<Result>(to, static_cast<const Result*>(values));
    }
  }
};

}  // namespace shardlab
