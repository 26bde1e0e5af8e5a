// strided_loop.h - walking several strided arrays of one shape together, inner rows at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/inline_vector.h"
#include "tensor/bounds.h"
#include "tensor/tensor.h"

namespace shardlab {

/// First byte of the tensor's first element, for writing: fetch it before any input's, because it
/// may replace a shared Buffer. Kernels reach memory through this and readable_bytes only, which
/// check the bounds of the view: a wrong one is an error, never an overrun.
inline std::byte* writable_bytes(const Tensor& tensor) {
  check_within_storage(tensor);
  return tensor.mutable_data<std::byte>() + tensor.offset() * (item_bytes(tensor.dtype()) - 1);
}
inline const std::byte* readable_bytes(const Tensor& tensor) {
  check_within_storage(tensor);
  return tensor.data<std::byte>() + tensor.offset() * (item_bytes(tensor.dtype()) - 1);
}

/// The tensor's strides when it is broadcast to `shape`: 0 along repeated dims.
Dims broadcast_strides(const Tensor& tensor, std::span<const std::int64_t> shape);
/// The tensor broadcast to `shape`, on the same memory.
Tensor broadcast_view(const Tensor& tensor, const Dims& shape);

/// Orders the dims by the first array's strides and joins those that follow each other in all
/// arrays.
class StridedLoop {
 public:
  static constexpr std::size_t kMaxArrays = 5;
  /// Part of an inner row: the target's first element, those of the sources in their order, and the
  /// step of each along the row, in elements, the target first.
  struct Row {
    std::byte* to;
    const std::byte* const* base;
    const std::int64_t* offset;
    const std::int64_t* stride;
    std::int64_t count;

    const std::byte* from(std::size_t source) const { return base[source] + offset[source + 1]; }
  };

  explicit StridedLoop(std::span<const std::int64_t> shape) : shape_(shape) {}

  /// Strides in elements, one per dim of the shape.
  void add(std::span<const std::int64_t> stride, std::int64_t element_bytes);
  /// The same for run_rows(): the one target first, then the sources.
  void add_target(std::span<const std::int64_t> stride, std::int64_t element_bytes,
                  std::byte* data);
  void add_source(std::span<const std::int64_t> stride, std::int64_t element_bytes,
                  const std::byte* data);

  /// visit(offsets, strides, count) per inner row: byte offset of each array's first element, its
  /// stride along the row in elements, elements in the row. Not called for empty shapes.
  template <typename Visit>
  void run(Visit&& visit) {
    if (!prepare()) return;
    const std::size_t inner = dims_.size() - 1;
    std::array<std::int64_t, kMaxArrays> offsets{};
    Dims index(inner, 0);
    for (;;) {
      visit(std::span<const std::int64_t>(offsets.data(), arrays_),
            std::span<const std::int64_t>(dims_[inner].stride.data(), arrays_), dims_[inner].size);
      if (!advance(index, offsets)) return;
    }
  }

  /// visit(Row) for all inner rows or, where a source is across them, for parts of them: that
  /// source is transposed first, a band of rows at a time. No source overlaps the target but in
  /// place.
  template <typename Visit>
  void run_rows(Visit&& visit) {
    if (!prepare()) return;
    const bool turned = dims_.size() > 1 && turn_sources();
    const std::size_t outer = dims_.size() - (turned ? 2 : 1);
    std::array<std::int64_t, kMaxArrays> offsets{};
    Dims index(outer, 0);
    Row row{target_, sources_.data(), offsets.data(), dims_.back().stride.data(),
            dims_.back().size};
    do {
      if (turned) {
        run_bands(offsets, visit);
      } else {
        row.to = target_ + offsets[0];
        visit(static_cast<const Row&>(row));
      }
    } while (advance(index, offsets));
  }

 private:
  struct LoopDim {
    std::int64_t size;
    std::array<std::int64_t, kMaxArrays> stride;
  };

  /// Rows that follow each other by `step` bytes in each array.
  struct Band {
    std::byte* to;
    std::array<const std::byte*, kMaxArrays> from;
    std::array<std::int64_t, kMaxArrays> stride;
    std::array<std::int64_t, kMaxArrays> step;
  };

  template <typename Visit>
  void run_bands(const std::array<std::int64_t, kMaxArrays>& offsets, Visit& visit) const {
    const LoopDim &down = dims_[dims_.size() - 2], &along = dims_.back();
    constexpr std::array<std::int64_t, kMaxArrays> kNothing{};
    for (std::int64_t row = 0; row < down.size; row += band_rows_) {
      const std::int64_t rows = std::min(band_rows_, down.size - row);
      for (std::int64_t column = 0; column < along.size; column += band_columns_) {
        const std::int64_t columns = std::min(band_columns_, along.size - column);
        Band band = band_at(offsets, row, rows, column, columns);
        for (std::int64_t r = 0; r < rows; ++r) {
          visit(Row{band.to, band.from.data(), kNothing.data(), band.stride.data(), columns});
          band.to += band.step[0];
          for (std::size_t i = 1; i < arrays_; ++i) band.from[i - 1] += band.step[i];
        }
      }
    }
  }

  Band band_at(const std::array<std::int64_t, kMaxArrays>& offsets, std::int64_t row,
               std::int64_t rows, std::int64_t column, std::int64_t columns) const;
  bool turn_sources();
  bool prepare();
  bool joins(const LoopDim& outer, const LoopDim& inner) const;
  bool advance(Dims& index, std::array<std::int64_t, kMaxArrays>& offsets) const;

  std::span<const std::int64_t> shape_;
  std::array<Dims, kMaxArrays> strides_;
  std::array<std::int64_t, kMaxArrays> bytes_{};
  std::byte* target_ = nullptr;
  std::array<const std::byte*, kMaxArrays> sources_;
  // Sources that run_rows() transposes, each into its part of turned_; null: it stays.
  std::array<std::byte*, kMaxArrays> turned_to_;
  std::unique_ptr<std::byte[]> turned_;
  std::int64_t band_rows_ = 0;
  std::int64_t band_columns_ = 0;
  std::size_t arrays_ = 0;
  InlineVector<LoopDim, 5> dims_;
};

}  // namespace shardlab
