// rows.h - a tensor seen as rows to be reduced: one per kept index, in row-major order; the
// elements of a row in row-major order of the reduced dims.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
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
/// Of var and std: correction(self, dim, *, correction, keepdim), dim(self, dim, unbiased, keepdim)
/// or (self, unbiased). None means 1.
double correction_of(const KernelCall& call);

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
  /// One row, with its dims.
  Tensor row(std::int64_t index) const;
  /// The source with the kept dims in front.
  const Tensor& permuted() const { return permuted_; }

 private:
  Tensor permuted_;
  Dims kept_shape_;
  Dims kept_stride_;
  std::int64_t rows_ = 1;
  std::int64_t size_ = 1;
  bool in_one_piece_ = true;
};

/// The rows as T. Not for several threads: a call may reuse one buffer. Rows in several pieces are
/// copied one by one, or at once where neighbours share cache lines.
template <typename T>
class Rows {
 public:
  Rows(const Tensor& source, const DimMask& reduced) : Rows(source, RowLayout(source, reduced)) {}
  Rows(const Tensor& source, RowLayout layout)
      : layout_(std::move(layout)),
        dtype_(source.dtype()),
        data_(readable_bytes(source)),
        copied_(layout_.columns() > 1 && !layout_.in_one_piece()) {
    if (copied_) {
      buffer_ = scratch<T>(source.numel());
      load_row_major(buffer_.get(), dtype_of<T>(), layout_.permuted());
    } else if (dtype_ != dtype_of<T>() || !layout_.in_one_piece()) {
      buffer_ = scratch<T>(layout_.size());
    }
  }

  std::int64_t count() const { return layout_.rows(); }
  std::int64_t size() const { return layout_.size(); }

  /// Elements [first, first + number) of a row. Valid until the next call.
  const T* part(std::int64_t index, std::int64_t first, std::int64_t number) {
    if (copied_) return buffer_.get() + index * size() + first;
    if (!layout_.in_one_piece()) {
      if (std::exchange(held_, index) != index) {
        load_row_major(buffer_.get(), dtype_of<T>(), layout_.row(index));
      }
      return buffer_.get() + first;
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
  bool copied_;
  Scratch<T> buffer_;
  std::int64_t held_ = -1;  // the row in the buffer
};

/// The output with `dim` innermost, computed row by row, once each and in order. Made before any
/// input is read. Elements of a row may be written as soon as a later row is: an input that is the
/// output has its layout.
template <typename T>
class OutputRows {
 public:
  OutputRows(const Tensor& out, const DimMask& dim) : layout_(out, dim), dtype_(out.dtype()) {
    if (layout_.in_one_piece()) {
      data_ = writable_bytes(out);
      if (dtype_ != dtype_of<T>()) buffer_ = scratch<T>(layout_.size());
    } else {
      result_.emplace(layout_.permuted());
    }
  }

  /// fill(row) computes the elements of a row, as T.
  template <typename Fill>
  void write(std::int64_t index, const Fill& fill) {
    if (result_) return fill(result_->data() + index * layout_.size());
    std::byte* to = data_ + layout_.offset_of(index) * item_bytes(dtype_);
    if (!buffer_) return fill(reinterpret_cast<T*>(to));
    fill(buffer_.get());
    convert_run({to, 1, dtype_}, {buffer_.get(), 1, dtype_of<T>()}, layout_.size());
  }
  /// Once all rows are written.
  void store() const {
    if (result_) result_->store();
  }

 private:
  RowLayout layout_;
  DType dtype_;
  std::byte* data_ = nullptr;
  Scratch<T> buffer_;
  std::optional<RowMajorOutput<T>> result_;
};

}  // namespace shardlab
