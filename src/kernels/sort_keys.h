// sort_keys.h - numbers as unsigned integers in the order in which the numbers are sorted, so that
// sorting compares and counts integers only. Pure.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/sort_order.h"

namespace shardlab {

template <typename T>
using SortKey = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// key(a) < key(b) where a is before b, and equal keys where neither is.
template <SortOrder order, typename T>
SortKey<T> sort_key(T value) {
  using Key = SortKey<T>;
  constexpr Key kSign = Key(1) << (8 * sizeof(T) - 1), kLast = static_cast<Key>(-1);
  Key key;
  if constexpr (Integer<T>) {
    key = std::bit_cast<Key>(value) ^ kSign;
  } else {
    const Key bits = std::bit_cast<Key>(value + T(0));  // of both zeros one
    key = bits ^ ((Key() - (bits >> (8 * sizeof(T) - 1))) | kSign);
    // Infinities have neither the first key nor the last one.
    key = is_nan(value) ? (order == SortOrder::kNanFirst ? Key(0) : kLast) : key;
  }
  return order == SortOrder::kDescending ? kLast - key : key;
}

/// An element of a row: its key and its place. In a row no two are equal.
template <typename Key>
struct SortEntry {
  Key key;
  Key place;

  bool operator<(const SortEntry& other) const {
    return key != other.key ? key < other.key : place < other.place;
  }
};

}  // namespace shardlab
