// rows.h - a tensor seen as rows to be reduced: one per kept index, in row-major order; the
// elements of a row in row-major order of the reduced dims.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>

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
  /// A row is in pieces of this many elements, one after the other as its elements are counted.
  std::int64_t piece() const { return piece_; }
  /// Offset of piece `index` of a row from the row's first element.
  std::int64_t offset_of_piece(std::int64_t index) const;
  /// The source with the kept dims in front.
  const Tensor& permuted() const { return permuted_; }
  /// Rows [first, first + count) of one group of columns() rows, [count, size()].
  Tensor columns_view(std::int64_t first, std::int64_t count) const;

 private:
  Tensor permuted_;
  Dims kept_shape_;
  Dims kept_stride_;
  std::int64_t rows_ = 1;
  std::int64_t size_ = 1;
  std::int64_t piece_ = 1;
  std::size_t piece_dims_ = 0;
  bool in_one_piece_ = true;
};

/// The rows as T, a few elements at a time and in any order: elements stored as T are not copied.
/// For layouts whose pieces are worth it.
template <typename T>
class RowParts {
 public:
  RowParts(const Tensor& source, const RowLayout& layout)
      : layout_(layout),
        data_(readable_bytes(source)),
        dtype_(source.dtype()),
        item_bytes_(item_bytes(dtype_)) {}

  /// Elements [first, first + count) of the row at `offset`: in place, or in `buffer`.
  const T* part(std::int64_t offset, std::int64_t first, std::int64_t count, T* buffer) const {
    const std::int64_t piece = layout_.piece();
    std::int64_t within = layout_.in_one_piece() ? first : first % piece;
    if (dtype_ == dtype_of<T>() && (layout_.in_one_piece() || within + count <= piece)) {
      return reinterpret_cast<const T*>(at(offset, first, within));
    }
    for (std::int64_t done = 0; done < count; within = 0) {
      const std::int64_t size =
          layout_.in_one_piece() ? count : std::min(count - done, piece - within);
      convert_run({buffer + done, 1, dtype_of<T>()}, {at(offset, first + done, within), 1, dtype_},
                  size);
      done += size;
    }
    return buffer;
  }

 private:
  // Element `index` of a row, which is element `within` of its piece.
  const std::byte* at(std::int64_t offset, std::int64_t index, std::int64_t within) const {
    const std::int64_t start =
        layout_.in_one_piece() ? 0 : layout_.offset_of_piece((index - within) / layout_.piece());
    return data_ + (offset + start + within) * item_bytes_;
  }

  const RowLayout& layout_;
  const std::byte* data_;
  DType dtype_;
  std::int64_t item_bytes_;
};

/// Rows that are columns of a tensor, a few neighbours at a time: elements that share a cache line
/// are read and written together, and a block fits the cache.
template <typename T>
class ColumnBlock {
 public:
  /// Whether blocks pay for the layout of the rows.
  static bool suits(const RowLayout& layout) { return layout.columns() >= kWidth; }

  explicit ColumnBlock(const RowLayout& layout)
      : buffer_(scratch<T>(std::min(kWidth, layout.columns()) * layout.size())) {}

  bool holds(std::int64_t row) const { return row >= first_ && row < first_ + count_; }
  /// The block of a row becomes the one that is held; its elements are not yet filled in.
  void move_to(const RowLayout& layout, std::int64_t row) {
    const std::int64_t columns = layout.columns(), within = row % columns / kWidth * kWidth;
    first_ = row / columns * columns + within;
    count_ = std::min(kWidth, columns - within);
  }
  T* row(const RowLayout& layout, std::int64_t row) const {
    return buffer_.get() + (row - first_) * layout.size();
  }
  void load(const RowLayout& layout) const {
    load_row_major(buffer_.get(), dtype_of<T>(), layout.columns_view(first_, count_));
  }
  /// Does nothing before the first move_to().
  void store(const RowLayout& layout) const {
    if (count_ == 0) return;
    store_row_major(layout.columns_view(first_, count_), buffer_.get(), dtype_of<T>());
  }

 private:
  static constexpr std::int64_t kWidth = 32;  // f32: two cache lines of each page that is opened

  Scratch<T> buffer_;
  std::int64_t first_ = 0, count_ = 0;
};

/// The rows as T. Not for several threads: row() may reuse one buffer.
template <typename T>
class Rows {
 public:
  Rows(const Tensor& source, const DimMask& reduced) : Rows(source, RowLayout(source, reduced)) {}
  Rows(const Tensor& source, RowLayout layout)
      : layout_(std::move(layout)), source_(source), data_(readable_bytes(source)) {
    const bool direct = source.dtype() == dtype_of<T>();
    if (layout_.in_one_piece()) {
      if (!direct) buffer_ = scratch<T>(layout_.size());
      return;
    }
    if (ColumnBlock<T>::suits(layout_)) {
      block_.emplace(layout_);
      return;
    }
    copied_ = true;
    buffer_ = scratch<T>(source.numel());
    load_row_major(buffer_.get(), dtype_of<T>(), layout_.permuted());
  }

  std::int64_t count() const { return layout_.rows(); }
  std::int64_t size() const { return layout_.size(); }

  /// Valid until the next call.
  const T* row(std::int64_t index) {
    if (copied_) return buffer_.get() + index * size();
    if (block_) {
      if (!block_->holds(index)) {
        block_->move_to(layout_, index);
        block_->load(layout_);
      }
      return block_->row(layout_, index);
    }
    const std::byte* from = data_ + layout_.offset_of(index) * item_bytes(source_.dtype());
    if (!buffer_) return reinterpret_cast<const T*>(from);
    convert_run({buffer_.get(), 1, dtype_of<T>()}, {from, 1, source_.dtype()}, size());
    return buffer_.get();
  }

 private:
  RowLayout layout_;
  const Tensor& source_;
  const std::byte* data_;
  Scratch<T> buffer_;
  std::optional<ColumnBlock<T>> block_;
  bool copied_ = false;
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
    } else if (ColumnBlock<T>::suits(layout_)) {
      block_.emplace(layout_);
    } else {
      result_.emplace(layout_.permuted());
    }
  }

  /// fill(row) computes the elements of a row, as T.
  template <typename Fill>
  void write(std::int64_t index, const Fill& fill) {
    if (block_) {
      if (!block_->holds(index)) {
        block_->store(layout_);
        block_->move_to(layout_, index);
      }
      return fill(block_->row(layout_, index));
    }
    if (result_) return fill(result_->data() + index * layout_.size());
    std::byte* to = data_ + layout_.offset_of(index) * item_bytes(dtype_);
    if (!buffer_) return fill(reinterpret_cast<T*>(to));
    fill(buffer_.get());
    convert_run({to, 1, dtype_}, {buffer_.get(), 1, dtype_of<T>()}, layout_.size());
  }
  /// Once all rows are written.
  void store() const {
    if (block_) block_->store(layout_);
    if (result_) result_->store();
  }

 private:
  RowLayout layout_;
  DType dtype_;
  std::byte* data_ = nullptr;
  Scratch<T> buffer_;
  std::optional<ColumnBlock<T>> block_;
  std::optional<RowMajorOutput<T>> result_;
};

}  // namespace shardlab
