// rows.h - a tensor seen as rows to be reduced: one per kept index, in row-major order; the
// elements of a row in row-major order of the reduced dims.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "base/inline_vector.h"
#include "kernels/kernel_args.h"
#include "kernels/loops.h"
#include "kernels/scratch.h"

namespace shardlab {

/// The dims that argument `index` names: a list (empty: all), an integer, or all for anything else.
DimMask reduced_dims(const KernelCall& call, std::size_t index, const Tensor& source);
DimMask single_dim(std::int64_t dim, const Tensor& source);
/// Elements in a row: the product of the reduced dims.
std::int64_t row_size(const Tensor& source, const DimMask& reduced);
/// The last dims, as many as the list `index` (normalized_shape) has sizes.
DimMask normalized_dims(const Tensor& input, const KernelCall& call, std::size_t index);
/// The correction of var and std: correction(self, dim, *, correction, keepdim), dim(self, dim,
/// unbiased, keepdim) or (self, unbiased). None means 1.
double correction_of(const KernelCall& call);

/// Neighbours that are copied together: rows `first` on, `count` of them, as a view in their order.
struct RowGroup {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Tensor rows;

  bool has(std::int64_t row) const { return row >= first && row < first + count; }
};

/// The layout of rows in memory: element r of row i is at offset_of(i) + r, counted in elements.
class RowLayout {
 public:
  RowLayout(const Tensor& source, const DimMask& reduced);

  /// Number of rows: the product of the kept dims.
  std::int64_t rows() const { return rows_; }
  /// Elements in a row.
  std::int64_t size() const { return size_; }
  /// Whether each row is in one piece.
  bool in_one_piece() const { return in_one_piece_; }
  std::int64_t offset_of(std::int64_t row) const;
  /// Rows are side by side in groups of this many, each a column with one stride; 0: they are not.
  std::int64_t columns() const;
  /// The stride of such a column.
  std::int64_t column_stride() const { return permuted_.stride().back(); }
  /// A group that begins at the row or before it: a part of one kept dim with all of those behind
  /// it, as many rows as a core's cache has room for as elements of so many bytes, but whole cache
  /// lines of the source. None is larger than that of row 0.
  RowGroup group_of(std::int64_t row, std::int64_t element_bytes) const;
  /// Memory for a group as T; none where rows can be used in place.
  template <typename T>
  Scratch<T> buffer() const {
    if (in_one_piece_ && permuted_.dtype() == dtype_of<T>()) return nullptr;
    return scratch<T>(group_of(0, sizeof(T)).count * size_);
  }
  /// The source with the kept dims in front.
  const Tensor& permuted() const { return permuted_; }

 private:
  Tensor permuted_;
  std::size_t kept_ = 0;  // its first dims
  std::int64_t rows_ = 1;
  std::int64_t size_ = 1;
  bool in_one_piece_ = true;
};

/// The rows as T. Not for several threads: a call may reuse one buffer. Rows in several pieces are
/// copied in groups.
template <typename T>
class Rows {
 public:
  Rows(const Tensor& source, const DimMask& reduced) : Rows(source, RowLayout(source, reduced)) {}
  Rows(const Tensor& source, RowLayout layout)
      : layout_(std::move(layout)),
        dtype_(source.dtype()),
        data_(readable_bytes(source)),
        buffer_(layout_.buffer<T>()) {}

  std::int64_t count() const { return layout_.rows(); }
  std::int64_t size() const { return layout_.size(); }

  /// Elements [first, first + number) of a row. Valid until the next call.
  const T* part(std::int64_t index, std::int64_t first, std::int64_t number) {
    if (!layout_.in_one_piece()) {
      if (!held_.has(index)) {
        held_ = layout_.group_of(index, sizeof(T));
        load_row_major(buffer_.get(), dtype_of<T>(), held_.rows);
      }
      return buffer_.get() + (index - held_.first) * size() + first;
    }
    const std::byte* from = data_ + (layout_.offset_of(index) + first) * item_bytes(dtype_);
    if (!buffer_) return reinterpret_cast<const T*>(from);
    convert_run({buffer_.get(), 1, dtype_of<T>()}, {from, 1, dtype_}, number);
    return buffer_.get();
  }
  const T* row(std::int64_t index) { return part(index, 0, size()); }

 private:
  RowLayout layout_;
  DType dtype_;
  const std::byte* data_;
  Scratch<T> buffer_;
  RowGroup held_;  // the rows in the buffer
};

/// The output with `dim` innermost, computed row by row, once each and in order. Made before any
/// input is read. Elements of a row may be written as soon as a later row is: an input that is the
/// output has its layout.
template <typename T>
class OutputRows {
 public:
  OutputRows(const Tensor& out, const DimMask& dim)
      : layout_(out, dim), data_(writable_bytes(out)), buffer_(layout_.buffer<T>()) {}

  /// fill(row) computes the elements of a row, as T.
  void write(std::int64_t index, const auto& fill) {
    if (!buffer_) return fill(reinterpret_cast<T*>(data_) + layout_.offset_of(index));
    if (!held_.has(index)) {
      store();
      held_ = layout_.group_of(index, sizeof(T));
    }
    fill(buffer_.get() + (index - held_.first) * layout_.size());
  }
  /// Once all rows are written.
  void store() const {
    if (held_.count > 0) store_row_major(held_.rows, buffer_.get(), dtype_of<T>());
  }

 private:
  RowLayout layout_;
  std::byte* data_;
  Scratch<T> buffer_;
  RowGroup held_;  // the rows in the buffer
};

}  // namespace shardlab
