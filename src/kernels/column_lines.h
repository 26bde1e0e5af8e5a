// column_lines.h - rows that are side by side, read together line by line: line i holds element i
// of each of them, so that memory is read in its own order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/rows.h"

namespace shardlab {

/// Neighbouring rows of one group: `count` of them from row `first` on.
struct Neighbours {
  std::int64_t first;
  std::int64_t count;
};

/// Elements of such rows as T, for reading.
template <typename T>
class InputLines {
 public:
  static constexpr std::int64_t kKept = 4;

  /// Whether rows of the layout are worth it.
  static bool suits(const RowLayout& layout) {
    constexpr std::int64_t kFewest = 8;
    return !layout.in_one_piece() && layout.columns() >= kFewest;
  }

  InputLines(const Tensor& source, const RowLayout& layout, const Neighbours& rows)
      : dtype_(source.dtype()),
        count_(rows.count),
        size_(layout.size()),
        step_(layout.column_stride() * item_bytes(dtype_)),
        data_(readable_bytes(source) + layout.offset_of(rows.first) * item_bytes(dtype_)) {
    if (dtype_ != dtype_of<T>()) buffer_ = scratch<T>(kKept * count_);
  }

  /// Number of elements in a line, and number of lines.
  std::int64_t columns() const { return count_; }
  std::int64_t lines() const { return size_; }

  /// Line i, valid until the next call with this slot, one of kKept.
  const T* line(std::int64_t i, std::int64_t slot) const {
    const std::byte* from = data_ + i * step_;
    if (!buffer_) return reinterpret_cast<const T*>(from);
    T* const to = buffer_.get() + slot * count_;
    convert_run({to, 1, dtype_of<T>()}, {from, 1, dtype_}, count_);
    return to;
  }

 private:
  DType dtype_;
  std::int64_t count_, size_, step_;
  const std::byte* data_;
  Scratch<T> buffer_;
};

/// Calls run(Neighbours) for all rows, as many at a time as leave their lanes room in a core's
/// cache.
void for_neighbours(const RowLayout& layout, const auto& run) {
  constexpr std::int64_t kMost = 1024;
  const std::int64_t all = layout.columns();
  for (std::int64_t row = 0; row < layout.rows(); row += all) {
    for (std::int64_t c = 0; c < all; c += kMost) {
      run(Neighbours{row + c, std::min(kMost, all - c)});
    }
  }
}

}  // namespace shardlab
