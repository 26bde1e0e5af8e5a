#include "tensor/cpu_device.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <new>

#include "base/error.h"
#include "tensor/strided_copy.h"

namespace shardlab {

namespace {

constexpr std::size_t kAlignment = 64;

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kReusedBytes = std::numeric_limits<std::size_t>::max();  // frees must be seen
#else
constexpr std::size_t kReusedBytes = 64 * 1024;
#endif

// Large blocks of malloc that were freed, to be used again: a fresh one costs a page fault every
// 4 KiB, several times the work that most collectives do on it. Thread-safe.
class BlockCache {
 public:
  struct Block {
    void* memory = nullptr;
    std::size_t size_bytes = 0;
  };

  ~BlockCache() { shrink_to(0); }
  /// A kept block of at least this size, at most a quarter larger; else an empty one.
  Block take(std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = by_size_.lower_bound(size_bytes);
    if (found == by_size_.end() || found->first > size_bytes + size_bytes / 4) return {};
    const Block block = *found->second;
    by_age_.erase(found->second);
    by_size_.erase(found);
    kept_bytes_ -= block.size_bytes;
    return block;
  }
  /// Keeps the block, and lets go of the oldest ones when that makes more than `limit_bytes`.
  void keep(const Block& block, std::size_t limit_bytes) {
    const std::lock_guard lock(mutex_);
    by_age_.push_back(block);
    by_size_.emplace(block.size_bytes, std::prev(by_age_.end()));
    kept_bytes_ += block.size_bytes;
    shrink_to(limit_bytes);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    shrink_to(0);
  }

 private:
  void shrink_to(std::size_t limit_bytes) {
    while (kept_bytes_ > limit_bytes) {
      const auto oldest = by_age_.begin();
      auto place = by_size_.lower_bound(oldest->size_bytes);
      while (place->second != oldest) ++place;
      kept_bytes_ -= oldest->size_bytes;
      std::free(oldest->memory);
      by_size_.erase(place);
      by_age_.erase(oldest);
    }
  }

  std::mutex mutex_;
  std::list<Block> by_age_;
  std::multimap<std::size_t, std::list<Block>::iterator> by_size_;
  std::size_t kept_bytes_ = 0;
};

class CpuDevice;

// Header and data lie in one block of malloc, which is several times cheaper than aligned_alloc.
class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(CpuDevice* device, void* data, std::size_t size_bytes, std::size_t block_bytes);

 private:
  void destroy() const override;

  std::size_t block_bytes_;
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

  void release(std::size_t size_bytes, const BlockCache::Block& block);

 private:
  void account(std::size_t size_bytes);
  BlockCache::Block block_of(std::size_t size_bytes);

  std::span<const CpuKernel> kernels_;
  std::atomic<std::int64_t> held_{0};
  std::atomic<std::int64_t> peak_{0};
  BlockCache cache_;
};

CpuBuffer::CpuBuffer(CpuDevice* device, void* data, std::size_t size_bytes, std::size_t block_bytes)
    : Buffer(device, data, size_bytes), block_bytes_(block_bytes) {}

void CpuBuffer::destroy() const {
  auto* device = static_cast<CpuDevice*>(device_);
  const std::size_t size_bytes = size_bytes_;
  const BlockCache::Block block{const_cast<CpuBuffer*>(this), block_bytes_};
  this->~CpuBuffer();
  device->release(size_bytes, block);
}

void CpuDevice::release(std::size_t size_bytes, const BlockCache::Block& block) {
  const auto size = static_cast<std::int64_t>(size_bytes);
  const std::int64_t held = held_.fetch_sub(size, std::memory_order_relaxed) - size;
  // Held and kept data together stay below the most that was ever held; a block
  // is up to 2 % larger than its data.
  const std::int64_t spare = std::max<std::int64_t>(0, peak_.load() - held) * 51 / 50;
  if (block.size_bytes < kReusedBytes) {
    std::free(block.memory);
  } else {
    cache_.keep(block, static_cast<std::size_t>(spare));
  }
}

BlockCache::Block CpuDevice::block_of(std::size_t size_bytes) {
  if (size_bytes >= kReusedBytes) {
    if (const BlockCache::Block block = cache_.take(size_bytes); block.memory != nullptr) {
      return block;
    }
  }
  void* memory = std::malloc(size_bytes);
  if (memory == nullptr) {
    cache_.clear();
    memory = std::malloc(size_bytes);
  }
  return {memory, size_bytes};
}

BufferRef CpuDevice::allocate(std::size_t size_bytes) {
  constexpr std::size_t kOverhead = sizeof(CpuBuffer) + kAlignment - 1;
  const bool fits = size_bytes <= std::numeric_limits<std::size_t>::max() - kOverhead;
  const BlockCache::Block block = fits ? block_of(size_bytes + kOverhead) : BlockCache::Block{};
  if (block.memory == nullptr) {
    fail(ErrorKind::kRuntime, "device cpu cannot allocate {} bytes; {} bytes are held", size_bytes,
         held_.load());
  }
  const auto first = reinterpret_cast<std::uintptr_t>(block.memory) + kOverhead;
  void* data = reinterpret_cast<void*>(first / kAlignment * kAlignment);
  account(size_bytes);
  return BufferRef(new (block.memory) CpuBuffer(this, data, size_bytes, block.size_bytes));
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
