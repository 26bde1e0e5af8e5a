// column_lines.h - rows that are side by side, computed together line by line: line i holds element
// i of each of them, so that memory is read and written in its own order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/rows.h"
#include "tensor/past_caches.h"

namespace shardlab {

/// Number of lines that are combined together, and of lines that can be read at once.
inline constexpr std::int64_t kRowsTogether = 4;
inline constexpr std::int64_t kLinesKept = 8;

/// Neighbouring rows of one group: `count` of them from row `first` on.
struct Neighbours {
  std::int64_t first;
  std::int64_t count;
};

/// Elements of such rows as T, for reading.
template <typename T>
class InputLines {
 public:
  InputLines(const Tensor& source, const RowLayout& layout, const Neighbours& rows)
      : dtype_(source.dtype()),
        count_(rows.count),
        size_(layout.size()),
        step_(layout.column_stride() * item_bytes(dtype_)),
        data_(readable_bytes(source) + layout.offset_of(rows.first) * item_bytes(dtype_)) {
    if (dtype_ != dtype_of<T>()) buffer_ = scratch<T>(kLinesKept * count_);
  }

  /// Number of elements in a line, and number of lines.
  std::int64_t columns() const { return count_; }
  std::int64_t lines() const { return size_; }

  /// Distance from each element to that of the next line; 0 where lines are converted.
  std::int64_t step() const { return buffer_ ? 0 : step_ / static_cast<std::int64_t>(sizeof(T)); }

  /// Line i, valid until the next call with this slot, one of kLinesKept.
  const T* line(std::int64_t i, std::int64_t slot = 0) const {
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

/// The same for writing: all lines are kept until store(), which must be called once they are
/// complete.
template <typename T>
class OutputLines {
 public:
  OutputLines(const Tensor& out, const RowLayout& layout, const Neighbours& rows)
      : dtype_(out.dtype()),
        count_(rows.count),
        size_(layout.size()),
        step_(layout.column_stride() * item_bytes(dtype_)),
        data_(writable_bytes(out) + layout.offset_of(rows.first) * item_bytes(dtype_)) {
    if (dtype_ != dtype_of<T>()) buffer_ = scratch<T>(count_ * size_);
  }

  T* line(std::int64_t i) const {
    return buffer_ ? buffer_.get() + i * count_ : reinterpret_cast<T*>(data_ + i * step_);
  }
  /// Whether all lines begin cache lines and are more than caches hold.
  bool writes_past_caches() const {
    const auto places = reinterpret_cast<std::intptr_t>(data_) | step_;
    return !buffer_ && places % kCacheLine == 0 && is_beyond_caches(size_ * step_);
  }
  void store() const {
    for (std::int64_t i = 0; buffer_ && i < size_; ++i) {
      convert_run({data_ + i * step_, 1, dtype_}, {line(i), 1, dtype_of<T>()}, count_);
    }
  }

 private:
  DType dtype_;
  std::int64_t count_, size_, step_;
  std::byte* data_;
  Scratch<T> buffer_;
};

/// Whether the rows of both are side by side, in the same groups.
inline bool go_down_together(const RowLayout& out, const RowLayout& source) {
  constexpr std::int64_t kFewest = 8;
  return source.columns() >= kFewest && out.columns() == source.columns();
}

/// Calls run(Neighbours) for all rows, as many at a time as keep lines long and, where lines are
/// kept in a buffer, that buffer in a cache.
template <typename Run>
void for_neighbours(const RowLayout& layout, bool buffered, const Run& run) {
  constexpr std::int64_t kMost = 1024, kLeast = 32, kKept = std::int64_t{1} << 17;
  const std::int64_t all = layout.columns();
  const std::int64_t kept = buffered ? std::max(kLeast, kKept / layout.size()) : kMost;
  const std::int64_t wide = std::min({all, kMost, kept});
  for (std::int64_t row = 0; row < layout.rows(); row += all) {
    for (std::int64_t c = 0; c < all; c += wide) {
      run(Neighbours{row + c, std::min(wide, all - c)});
    }
  }
}

/// Row::down(lines of each input, lines of the output) for rows that are columns side by side;
/// false, and nothing is done, where they are not.
template <typename Row, typename T, typename... Input>
bool map_columns(const Tensor& out, const DimMask& dim, const Input&... inputs) {
  const RowLayout layout(out, dim);
  const auto run = [&](const auto&... layouts) {
    if (!(go_down_together(layout, layouts) && ...)) return false;
    for_neighbours(layout, out.dtype() != dtype_of<T>(), [&](const Neighbours& rows) {
      const OutputLines<T> to(out, layout, rows);
      Row::down(InputLines<T>(inputs, layouts, rows)..., to);
      to.store();
    });
    return true;
  };
  return run(RowLayout(inputs, dim)...);
}

}  // namespace shardlab
