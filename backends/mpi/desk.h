// desk.h - the data that the steps of one collective work on: rows of tensors in host memory, and
// the place of a rank in its group.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "backends/mpi/operation.h"
#include "backends/shared/call.h"
#include "backends/shared/pieces.h"
#include "base/error.h"
#include "tensor/device.h"

namespace shardlab::mpi {

using backends::piece_of;
using backends::Range;
using Bytes = std::vector<std::byte>;

/// Part of a row-major array along one dim: `count` rows of `bytes`, `stride` apart.
struct Rows {
  std::size_t count;
  std::size_t bytes;
  std::size_t stride;
  std::size_t offset;

  std::size_t total() const { return count * bytes; }
  bool adjoin() const { return count <= 1 || bytes == stride; }
};

inline Rows rows_of(const Dims& shape, std::int64_t dim, Range range, DType dtype) {
  auto inner = static_cast<std::size_t>(item_bytes(dtype));
  std::size_t outer = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i < static_cast<std::size_t>(dim)) outer *= static_cast<std::size_t>(shape[i]);
    if (i > static_cast<std::size_t>(dim)) inner *= static_cast<std::size_t>(shape[i]);
  }
  const auto size = static_cast<std::size_t>(shape[static_cast<std::size_t>(dim)]);
  return {.count = outer,
          .bytes = static_cast<std::size_t>(range.size) * inner,
          .stride = size * inner,
          .offset = static_cast<std::size_t>(range.offset) * inner};
}

inline void pack(std::byte* to, const std::byte* from, const Rows& rows) {
  if (rows.total() == 0) return;
  for (std::size_t i = 0; i < rows.count; ++i) {
    std::memcpy(to + i * rows.bytes, from + rows.offset + i * rows.stride, rows.bytes);
  }
}

inline void unpack(std::byte* to, const std::byte* from, const Rows& rows) {
  if (rows.total() == 0) return;
  for (std::size_t i = 0; i < rows.count; ++i) {
    std::memcpy(to + rows.offset + i * rows.stride, from + i * rows.bytes, rows.bytes);
  }
}

/// Elements of a tensor, row-major, in host memory; keeps its Buffer unchanged.
class Input {
 public:
  Input() = default;
  explicit Input(const Tensor& x) : buffer_(x.storage()->buffer()) {
    if (x.contiguous() && x.device()->type() == "cpu") {
      data_ = static_cast<std::byte*>(buffer_->data()) + x.offset() * item_bytes(x.dtype());
      return;
    }
    copy_.resize(static_cast<std::size_t>(x.size_bytes()));
    x.device()->read(x, copy_.data());
    data_ = copy_.data();
    buffer_ = nullptr;
  }
  std::byte* data() const { return data_; }

 private:
  BufferRef buffer_;
  Bytes copy_;
  std::byte* data_ = nullptr;
};

/// A new tensor, in host memory until finish().
class Output {
 public:
  Output(Device& device, const Dims& shape, DType dtype)
      : device_(&device),
        meta_(contiguous_meta(shape, dtype)),
        buffer_(device.allocate(static_cast<std::size_t>(product(shape) * item_bytes(dtype)))) {
    if (device.shape_only()) {
      fail(ErrorKind::kUnsupported, Fix{"use --device cpu, or the backend fake for shapes alone"},
           "backend mpi moves data, which device {} does not have", device.type());
    }
    if (device.type() != "cpu") copy_.resize(buffer_->size_bytes());
  }
  std::byte* data() {
    return copy_.empty() ? static_cast<std::byte*>(buffer_->data()) : copy_.data();
  }
  const Dims& shape() const { return meta_.shape; }
  DType dtype() const { return meta_.dtype; }
  std::size_t bytes() const { return buffer_->size_bytes(); }
  BufferRef finish() {
    if (copy_.empty()) return std::move(buffer_);
    // For memory with another owner a write would make a copy, and fill that one.
    const Tensor result(make_ref<Storage>(std::move(buffer_)), meta_);
    device_->write(result, copy_.data());
    return result.storage()->buffer();
  }

 private:
  Device* device_;
  TensorMeta meta_;
  BufferRef buffer_;
  Bytes copy_;
};

/// The working data of the steps of one operation. Staging memory does not move.
struct Desk {
  Session* session;
  std::size_t rank;
  std::vector<std::int64_t> ranks;
  int tag;
  CollectiveKind kind;
  ReduceOp op;
  Input input;
  std::unique_ptr<Output> output;
  std::deque<Bytes> staging;

  std::size_t size() const { return ranks.size(); }
  std::byte* stage(std::size_t bytes) { return staging.emplace_back(bytes).data(); }

  /// Memory with these rows of the input.
  std::byte* packed(const Rows& rows) {
    if (rows.adjoin()) return input.data() + (rows.total() == 0 ? 0 : rows.offset);
    std::byte* memory = stage(rows.total());
    pack(memory, input.data(), rows);
    return memory;
  }
};

using DeskRef = std::shared_ptr<Desk>;

}  // namespace shardlab::mpi
