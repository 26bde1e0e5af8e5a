// strided_loop.h - walking several strided arrays of one shape together, inner rows at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

/// Whether neighbours in memory are along another dim than the last: a loop along the last waits
/// for each element, and a copy, which goes block by block, pays first.
bool is_across(std::span<const std::int64_t> shape, std::span<const std::int64_t> stride);

/// Orders the dims by the first array's strides and joins those that follow each other in all
/// arrays.
class StridedLoop {
 public:
  static constexpr std::size_t kMaxArrays = 5;

  explicit StridedLoop(std::span<const std::int64_t> shape) : shape_(shape) {}

  /// Strides in elements, one per dim of the shape.
  void add(std::span<const std::int64_t> stride, std::int64_t element_bytes);

  /// visit(offsets, strides, count) per inner row: byte offset of each array's first element, its
  /// stride along the row in elements, elements in the row. Not called for empty shapes.
  void run(auto&& visit) {
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

 private:
  struct LoopDim {
    std::int64_t size;
    std::array<std::int64_t, kMaxArrays> stride;
  };

  bool prepare();
  bool joins(const LoopDim& outer, const LoopDim& inner) const;
  bool advance(Dims& index, std::array<std::int64_t, kMaxArrays>& offsets) const;

  std::span<const std::int64_t> shape_;
  std::array<Dims, kMaxArrays> strides_;
  std::array<std::int64_t, kMaxArrays> bytes_{};
  std::size_t arrays_ = 0;
  InlineVector<LoopDim, 5> dims_;
};

}  // namespace shardlab
