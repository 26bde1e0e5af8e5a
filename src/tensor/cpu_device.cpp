#include "tensor/cpu_device.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

#include "base/error.h"
#include "tensor/strided_copy.h"

namespace shardlab {

namespace {

constexpr std::size_t kAlignment = 64;

class CpuDevice;

// Header and data lie in one block of malloc, which is several times cheaper than aligned_alloc.
class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(CpuDevice* device, void* data, std::size_t size_bytes);

 private:
  void destroy() const override;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::span<const CpuKernel> kernels) : kernels_(kernels) {}

  std::string_view type() const override { return "cpu"; }
  BufferRef allocate(std::size_t size_bytes) override;
  void run(const KernelCall& call) override;
  void copy(const Tensor& dst, const Tensor& src) override;
  void read(const Tensor& src, void* out) override;
  void write(const Tensor& dst, const void* data) override;
  MemoryUse memory() const override { return {held_.load(), peak_.load()}; }

  void release(std::size_t size_bytes) {
    held_.fetch_sub(static_cast<std::int64_t>(size_bytes), std::memory_order_relaxed);
  }

 private:
  void account(std::size_t size_bytes);

  std::span<const CpuKernel> kernels_;
  std::atomic<std::int64_t> held_{0};
  std::atomic<std::int64_t> peak_{0};
};

CpuBuffer::CpuBuffer(CpuDevice* device, void* data, std::size_t size_bytes)
    : Buffer(device, data, size_bytes) {}

void CpuBuffer::destroy() const {
  static_cast<CpuDevice*>(device_)->release(size_bytes_);
  void* block = const_cast<CpuBuffer*>(this);
  this->~CpuBuffer();
  std::free(block);
}

BufferRef CpuDevice::allocate(std::size_t size_bytes) {
  constexpr std::size_t kOverhead = sizeof(CpuBuffer) + kAlignment - 1;
  const bool fits = size_bytes <= std::numeric_limits<std::size_t>::max() - kOverhead;
  void* block = fits ? std::malloc(size_bytes + kOverhead) : nullptr;
  if (block == nullptr) {
    fail(ErrorKind::kRuntime, "device cpu cannot allocate {} bytes; {} bytes are held", size_bytes,
         held_.load());
  }
  const auto first = reinterpret_cast<std::uintptr_t>(block) + kOverhead;
  void* data = reinterpret_cast<void*>(first / kAlignment * kAlignment);
  account(size_bytes);
  return BufferRef(new (block) CpuBuffer(this, data, size_bytes));
}

void CpuDevice::account(std::size_t size_bytes) {
  const auto size = static_cast<std::int64_t>(size_bytes);
  const std::int64_t held = held_.fetch_add(size, std::memory_order_relaxed) + size;
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
  }
}

void CpuDevice::run(const KernelCall& call) {
  const auto index = static_cast<std::size_t>(call.kernel);
  if (index >= kernels_.size() || kernels_[index] == nullptr) {
    fail(ErrorKind::kUnsupported, "device cpu has no kernel {}", index);
  }
  kernels_[index](call);
}

void CpuDevice::copy(const Tensor& dst, const Tensor& src) {
  check_invariant(dst.shape() == src.shape() && dst.dtype() == src.dtype(),
                  "Device::copy takes two tensors of one shape and dtype");
  const std::int64_t bytes = item_bytes(dst.dtype());
  // The target first: writable() may replace the Buffer of a Storage that both share.
  auto* target = static_cast<std::byte*>(dst.storage()->writable()->data()) + dst.offset() * bytes;
  const BufferRef& from = src.storage()->buffer();
  const auto* source = static_cast<const std::byte*>(from->data()) + src.offset() * bytes;
  strided_copy({target, dst.stride()}, {source, src.stride()}, dst.shape(), bytes);
}

void CpuDevice::read(const Tensor& src, void* out) {
  const std::int64_t bytes = item_bytes(src.dtype());
  const BufferRef& from = src.storage()->buffer();
  const auto* source = static_cast<const std::byte*>(from->data()) + src.offset() * bytes;
  strided_copy({out, contiguous_strides(src.shape())}, {source, src.stride()}, src.shape(), bytes);
}

void CpuDevice::write(const Tensor& dst, const void* data) {
  const std::int64_t bytes = item_bytes(dst.dtype());
  auto* target = static_cast<std::byte*>(dst.storage()->writable()->data()) + dst.offset() * bytes;
  strided_copy({target, dst.stride()}, {data, contiguous_strides(dst.shape())}, dst.shape(), bytes);
}

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::span<const CpuKernel> kernels) {
  return std::make_unique<CpuDevice>(kernels);
}

}  // namespace shardlab
