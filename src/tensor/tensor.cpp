// Ranks of one process may share Buffers, as results that are equal on all of them, and each has a
// Storage of its own. The first write through a Storage whose Buffer is shared copies it
// (writable()), so that no rank sees another one's write.
#include "tensor/tensor.h"

#include "base/error.h"
#include "base/rank_context.h"
#include "tensor/device.h"

namespace shardlab {

Dims contiguous_strides(std::span<const std::int64_t> shape) {
  Dims stride(shape.size());
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    stride[i] = next;
    // A product that overflows wraps: specs and devices refuse such shapes.
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1));
    next = static_cast<std::int64_t>(static_cast<std::uint64_t>(next) * size);
  }
  return stride;
}

TensorMeta contiguous_meta(std::span<const std::int64_t> shape, DType dtype) {
  return {Dims(shape), contiguous_strides(shape), dtype};
}

bool is_contiguous(std::span<const std::int64_t> shape, std::span<const std::int64_t> stride) {
  bool row_major = true;
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && stride[i] != next) row_major = false;
    next *= shape[i];
  }
  return row_major;
}

void refuse_undefined(const char* accessor) {
  fail(ErrorKind::kValue, Fix{"give it a value first: x = zeros({2}); x.defined() asks"},
       "{}(): the tensor is undefined", accessor);
}

void Tensor::refuse_elements(std::size_t size) const {
  fail(ErrorKind::kValue, Fix{"read the type that is stored, or convert first: to(x, DType::kF64)"},
       "data<T>(): the elements are {}, of {} bytes, and T is another type, of {}",
       to_string(dtype()), item_bytes(dtype()), size);
}

Storage::Storage(BufferRef buffer) : Storage(std::move(buffer), 0) {}

Storage::Storage(BufferRef buffer, std::int64_t room) : buffer_(std::move(buffer)), room_(room) {
  const RankContext* rank = current_rank_or_null();
  if (rank == nullptr || rank->memory == nullptr || !rank->memory->counts()) return;
  account_ = rank->memory;
  made_for_ = account_->making;
  count(buffer_.get(), 1);
}

Storage::~Storage() { count(buffer_.get(), -1); }

void Storage::count(const Buffer* buffer, std::int64_t sign) {
  if (account_ == nullptr || buffer == nullptr) return;
  account_->add(held_for(), sign * counted_bytes(*buffer));
}

HeldFor Storage::held_for() const {
  if (made_for_ == HeldFor::kInput) return made_for_;
  if (gradients_ > 0) return HeldFor::kGradient;
  return kept_ > 0 ? HeldFor::kBackward : made_for_;
}

void Storage::become_input() {
  const HeldFor before = held_for();
  made_for_ = HeldFor::kInput;
  if (account_ != nullptr && buffer_) account_->move(before, made_for_, counted_bytes());
}

void Storage::change_holds(HeldFor purpose, int by) {
  const HeldFor before = held_for();
  (purpose == HeldFor::kGradient ? gradients_ : kept_) += by;
  const HeldFor now = held_for();
  if (account_ == nullptr || now == before || !buffer_) return;
  account_->move(before, now, counted_bytes());
}

Hold::Hold(Ref<Storage> storage, HeldFor purpose)
    : storage_(std::move(storage)), purpose_(purpose) {
  if (storage_) storage_->change_holds(purpose_, 1);
}

void Storage::complete(BufferRef buffer) {
  count(buffer_.get(), -1);
  buffer_ = std::move(buffer);
  count(buffer_.get(), 1);
}

const BufferRef& Storage::writable() {
  settle();
  ++version_;
  if (buffer_->use_count() > 1) {
    Device* device = buffer_->device();
    const auto size_bytes = static_cast<std::int64_t>(buffer_->size_bytes());
    const TensorMeta bytes{{size_bytes}, {1}, DType::kU8};
    // The new Storage alone holds its Buffer while it is written, or this would not end. A device
    // of the rank alone would write without a copy, so that the copy does not count as memory of
    // the rank.
    const Ref<Storage> copy(new Storage(device->allocate(buffer_->size_bytes()), Uncounted{}));
    device->copy(Tensor(copy, bytes), Tensor(snapshot(), bytes));
    buffer_ = copy->buffer();
  }
  return buffer_;
}

void Storage::settle() {
  if (!pending_) return;
  // A failed collective stays pending: every later use fails the same way.
  const Ref<Work> work = pending_;
  work->wait();
  pending_ = nullptr;
}

Ref<Storage> Storage::snapshot() {
  settle();
  return Ref<Storage>(new Storage(buffer_, Uncounted{}));
}

Ref<Storage> Storage::copy() { return Ref<Storage>(new Storage(buffer(), room_)); }

void Storage::lie_in(std::int64_t bytes) {
  const std::int64_t before = counted_bytes();
  room_ = bytes;
  if (account_ != nullptr && buffer_) account_->add(held_for(), counted_bytes() - before);
}

Tensor Tensor::narrow(std::size_t tensor_dim, std::int64_t start, std::int64_t size) const {
  TensorMeta meta = meta_;
  meta.shape[tensor_dim] = size;
  return as_view(std::move(meta), offset_ + start * meta_.stride[tensor_dim]);
}

Tensor Tensor::snapshot() const { return Tensor(storage_->snapshot(), meta_, offset_); }

}  // namespace shardlab
