// tensor.h - strided views of rank-local storage.
// Buffer (memory) <- Storage (a rank's identity: Buffer + version + pending Work) <- Tensor (shape,
// stride, offset). Views share the Storage; ranks share only Buffers. One rank uses a Tensor at a
// time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/inline_vector.h"
#include "base/memory_account.h"
#include "base/work.h"

namespace shardlab {

// Counted device memory. Ranks may share a Buffer; a shared one is never written
// (Storage::writable copies first). Safe to hold and drop on any thread.

class Device;

/// Memory of one Device, which made it and frees it. While two or more hold it, it is not written;
/// its only holder may.
class Buffer : public Counted {
 public:
  Buffer(Device* device, void* data, std::size_t size_bytes)
      : device_(device), data_(data), size_bytes_(size_bytes) {}

  /// The device outlives its Buffers.
  Device* device() const { return device_; }
  /// The size that was requested; the device may have reserved more.
  std::size_t size_bytes() const { return size_bytes_; }
  /// Device address; null for shape-only devices. Only a Device dereferences it.
  void* data() const { return data_; }

 protected:
  // Set once, before others see the Buffer: reading them takes no lock.
  Device* device_;
  void* data_;
  std::size_t size_bytes_;
};

using BufferRef = Ref<Buffer>;

/// Shape, stride (both in elements) and dtype: the result of shape inference (M-3).
struct TensorMeta {
  Dims shape;
  Dims stride;
  DType dtype = DType::kF32;
  bool operator==(const TensorMeta&) const = default;
};

/// Row-major strides. Sizes of 0 count as 1, as in the reference.
Dims contiguous_strides(std::span<const std::int64_t> shape);
/// Row-major metadata of this shape.
TensorMeta contiguous_meta(std::span<const std::int64_t> shape, DType dtype);
/// True when elements are in row-major order without gaps; strides of dims of size 1 do not matter,
/// and a tensor without elements always is.
bool is_contiguous(std::span<const std::int64_t> shape, std::span<const std::int64_t> stride);

/// Identity of a piece of rank-local memory, common to all its views.
class Storage : public Counted {
 public:
  /// Counted on the running rank's memory account, if there is one, for the purpose that is set
  /// there.
  explicit Storage(BufferRef buffer);
  ~Storage() override;

  /// For reading. Waits for a pending collective first.
  const BufferRef& buffer() {
    if (pending_) settle();
    return buffer_;
  }
  /// For writing: waits, copies the Buffer when another Storage holds it, bumps the version.
  /// Kernels write only through this.
  const BufferRef& writable();
  /// Counts writes through this Storage; autograd refuses to use a saved value whose version has
  /// changed.
  std::uint64_t version() const { return version_; }

  /// Attaches a pending result: `work` fills the buffer by calling complete().
  void set_pending(Ref<Work> work) { pending_ = std::move(work); }
  /// True until the collective that fills the buffer has been waited for (K-20).
  bool pending() const { return static_cast<bool>(pending_); }
  /// Replaces the Buffer by the result. For Works, and for devices that share results.
  void complete(BufferRef buffer);
  /// Waits for the pending result, if any.
  void settle();
  /// A Storage of its own over the same Buffer: the value as it is now (copy on write). It counts
  /// on no account: for observers.
  Ref<Storage> snapshot();
  /// The same as a program's own copy, which counts.
  Ref<Storage> copy();

  /// The purpose it counts under: input, then gradient, then kept for backward, then the purpose it
  /// was made for.
  HeldFor held_for() const;
  bool kept_for_backward() const { return kept_ > 0; }
  /// From now on it counts as an input: a result that has become a parameter.
  void become_input();
  /// Whether it counts on an account.
  bool counted() const { return account_ != nullptr; }
  /// Bytes that the program's device would hold for it: its Buffer, and room behind it.
  std::int64_t counted_bytes() const { return buffer_ ? counted_bytes(*buffer_) : 0; }
  /// Its data is at the front of `bytes` of memory, where a kernel of the reference leaves its
  /// result.
  void lie_in(std::int64_t bytes);

 private:
  friend class Hold;
  struct Uncounted {};
  Storage(BufferRef buffer, Uncounted) : buffer_(std::move(buffer)) {}
  Storage(BufferRef buffer, std::int64_t room);
  // All changes of this Storage reach the account through these two.
  void count(const Buffer* buffer, std::int64_t sign);
  std::int64_t counted_bytes(const Buffer& buffer) const {
    return std::max(static_cast<std::int64_t>(buffer.size_bytes()), room_);
  }
  void change_holds(HeldFor purpose, int by);

  // Null until a pending result has arrived.
  BufferRef buffer_;
  Ref<Work> pending_;
  MemoryAccount* account_ = nullptr;
  std::uint64_t version_ = 0;
  std::int64_t room_ = 0;
  std::int32_t gradients_ = 0, kept_ = 0;  // Holds that live
  HeldFor made_for_ = HeldFor::kOther;
};

/// A reference to a Storage with a purpose, gradient or kept for backward: it counts as held for
/// that while one of these lives.
class Hold {
 public:
  Hold() = default;
  Hold(Ref<Storage> storage, HeldFor purpose);
  Hold(Hold&& other) noexcept = default;
  Hold& operator=(Hold&& other) noexcept {
    std::swap(storage_, other.storage_);
    std::swap(purpose_, other.purpose_);
    return *this;
  }
  ~Hold() {
    if (storage_) storage_->change_holds(purpose_, -1);
  }

  const Ref<Storage>& storage() const { return storage_; }

 private:
  Ref<Storage> storage_;
  HeldFor purpose_ = HeldFor::kOther;
};

/// Fails with Value: `accessor` was called on a tensor that is undefined.
[[noreturn]] void refuse_undefined(const char* accessor);

/// A strided view of a Storage: shape, strides and offset in elements. A small value; copies are
/// views of the same memory, and writing through one shows in all. Used by one rank at a time.
class Tensor {
 public:
  /// Undefined: no storage.
  Tensor() {}  // not defaulted: `{}` would write zeros to all places of its shape first
  Tensor(Ref<Storage> storage, TensorMeta meta, std::int64_t offset = 0)
      : storage_(std::move(storage)), meta_(std::move(meta)), offset_(offset) {}

  /// False for a null tensor, whose other accessors must not be called.
  bool defined() const { return static_cast<bool>(storage_); }
  const Dims& shape() const { return meta_.shape; }
  const Dims& stride() const { return meta_.stride; }
  DType dtype() const { return meta_.dtype; }
  const TensorMeta& meta() const { return meta_; }
  /// Number of tensor dims; 0 for a single number.
  std::int64_t dim() const { return static_cast<std::int64_t>(meta_.shape.size()); }
  std::int64_t size(std::size_t tensor_dim) const { return meta_.shape[tensor_dim]; }
  /// Elements of this view, which may be fewer or, where it is expanded, more than its Buffer has.
  std::int64_t numel() const { return product(meta_.shape); }
  /// The size of the elements, without gaps between them.
  std::int64_t size_bytes() const { return numel() * item_bytes(meta_.dtype); }
  /// In elements, from the start of the Buffer.
  std::int64_t offset() const { return offset_; }
  bool contiguous() const { return is_contiguous(meta_.shape, meta_.stride); }
  const Ref<Storage>& storage() const { return storage_; }
  /// The one that made the memory; waits for a pending result, whose Buffer is not known before.
  ///   fails  Value: undefined
  Device* device() const {
    if (!storage_) [[unlikely]]
      refuse_undefined("device");
    return storage_->buffer()->device();
  }

  /// Another view of the same Storage. The caller checks the bounds.
  Tensor as_view(TensorMeta meta, std::int64_t offset) const {
    return Tensor(storage_, std::move(meta), offset);
  }
  /// dim `tensor_dim` restricted to [start, start + size): a view.
  Tensor narrow(std::size_t tensor_dim, std::int64_t start, std::int64_t size) const;
  /// The same value under a Storage of its own (copy on write): later in-place ops do not reach it.
  Tensor snapshot() const;
  /// Waits for a pending collective.
  void wait() const {
    if (storage_) storage_->settle();
  }
  bool pending() const { return storage_ && storage_->pending(); }

  /// First element, for reading (CPU devices and kernels only).
  ///   fails  Value: undefined, or elements of another type than T (is_stored_as)
  template <typename T>
  const T* data() const {
    check_elements<T>();
    return static_cast<const T*>(storage_->buffer()->data()) + offset_;
  }
  /// First element, for writing.
  ///   fails  as data()
  template <typename T>
  T* mutable_data() const {
    check_elements<T>();
    return static_cast<T*>(storage_->writable()->data()) + offset_;
  }

 private:
  template <typename T>
  void check_elements() const {
    if (!storage_) [[unlikely]]
      refuse_undefined("data");
    if (!is_stored_as<T>(meta_.dtype)) [[unlikely]]
      refuse_elements(sizeof(T));
  }
  [[noreturn]] void refuse_elements(std::size_t size) const;

  Ref<Storage> storage_;
  TensorMeta meta_;
  std::int64_t offset_ = 0;
};

}  // namespace shardlab
