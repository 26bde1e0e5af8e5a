// Host memory by malloc. Large blocks are kept when they are freed and used again, by all devices
// of the process, because a fresh one costs page faults; held and kept bytes together stay within
// the peak that was held at one time, so that keeping them never raises the memory that a process
// needs. Counting is striped by rank where ranks run on several threads.
#include "tensor/cpu_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <new>

#include <sys/mman.h>

#include "base/error.h"
#include "base/rank_context.h"
#include "base/scheduler.h"
#include "tensor/bounds.h"
#include "tensor/strided_copy.h"

namespace shardlab {

namespace {

constexpr std::size_t kAlignment = 64;

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kReusedBytes = std::numeric_limits<std::size_t>::max();  // every free must be
                                                                               // visible
#else
constexpr std::size_t kReusedBytes = 64 * 1024;
#endif
// Freed memory that is kept: others need some, too.
constexpr std::size_t kMostSpare = std::size_t{128} << 20;

// Asks for large pages for a large fresh block, where the system has them: small ones cost a page
// fault each, and a walk down columns misses the processor's table of pages for each row that it
// touches.
void ask_for_large_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size_bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t kLeast = std::size_t{8} << 20, kPage = 4096;
  if (memory == nullptr || size_bytes < kLeast) return;
  const auto first = (reinterpret_cast<std::uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + size_bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);  // a wish: it may fail
#endif
}

// Large blocks of malloc that were freed, to be used again: a fresh one costs a page fault every
// 4 KiB, several times the work that most collectives do on it. Thread-safe.
class BlockCache {
 public:
  struct Block {
    void* memory = nullptr;
    std::size_t size_bytes = 0;
  };

  /// The one of all devices, which lives as long as the process.
  static BlockCache& of_process() {
    static auto* const cache = new BlockCache;
    return *cache;
  }
  /// A kept block of at least this size, at most a quarter larger; else one without memory. It
  /// counts as held until it is kept.
  Block take(std::size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    Block block{nullptr, size_bytes};
    const auto found = by_size_.lower_bound(size_bytes);
    if (found != by_size_.end() && found->first <= size_bytes + size_bytes / 4) {
      block = *found->second;
      by_age_.erase(found->second);
      by_size_.erase(found);
      kept_bytes_ -= block.size_bytes;
    }
    held_bytes_ += block.size_bytes;
    peak_bytes_ = std::max(peak_bytes_, held_bytes_);
    shrink_to(peak_bytes_ - held_bytes_);
    return block;
  }
  /// Keeps a block that was taken, if it has memory, and frees the oldest ones when that makes too
  /// many.
  void keep(const Block& block) {
    const std::lock_guard lock(mutex_);
    held_bytes_ -= block.size_bytes;
    if (block.memory == nullptr) return;
    by_age_.push_back(block);
    by_size_.emplace(block.size_bytes, std::prev(by_age_.end()));
    kept_bytes_ += block.size_bytes;
    shrink_to(std::min(kMostSpare, peak_bytes_ - held_bytes_));
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
  std::size_t kept_bytes_ = 0, held_bytes_ = 0, peak_bytes_ = 0;
};

// Bytes held, and the most ever held. If ranks run on several threads, small changes gather per
// rank first, so that threads which dispatch at once do not wait for each other: the peak is then
// exact up to kSlackBytes per stripe. It depends on their timing there anyway.
class ByteCount {
 public:
  void add(std::int64_t bytes) {
    const RankContext* rank = current_rank_or_null();
    if (rank != nullptr && rank->scheduler != nullptr && rank->scheduler->thread_count() > 1) {
      Stripe& stripe = stripes_[static_cast<std::size_t>(rank->rank) % kStripes];
      const std::int64_t gathered = add_to(stripe.bytes, bytes);
      if (std::abs(gathered) < kSlackBytes) return;
      stripe.bytes.fetch_sub(gathered, std::memory_order_relaxed);
      bytes = gathered;
    }
    raise_peak(add_to(total_, bytes));
  }
  std::int64_t held() const {
    std::int64_t sum = total_.load(std::memory_order_relaxed);
    for (const Stripe& stripe : stripes_) sum += stripe.bytes.load(std::memory_order_relaxed);
    return sum;
  }
  /// Without the stripes' own counts: the slack of each.
  std::int64_t roughly_held() const { return total_.load(std::memory_order_relaxed); }
  std::int64_t peak() const { return std::max(peak_.load(std::memory_order_relaxed), held()); }

 private:
  static constexpr std::size_t kStripes = 64;
  static constexpr std::int64_t kSlackBytes = 4096;
  struct alignas(64) Stripe {
    std::atomic<std::int64_t> bytes{0};
  };

  // The new sum.
  static std::int64_t add_to(std::atomic<std::int64_t>& sum, std::int64_t bytes) {
    if (!single_threaded()) return sum.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    const std::int64_t result = sum.load(std::memory_order_relaxed) + bytes;
    sum.store(result, std::memory_order_relaxed);
    return result;
  }
  void raise_peak(std::int64_t held) {
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
    }
  }

  std::atomic<std::int64_t> total_{0};
  std::atomic<std::int64_t> peak_{0};
  std::array<Stripe, kStripes> stripes_;
};

class CpuDevice;

// Header and data are one block of malloc, which is several times cheaper than aligned_alloc.
class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(CpuDevice* device, void* data, std::size_t size_bytes, std::size_t block_bytes);

 private:
  void destroy() const override;

  std::size_t block_bytes_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(std::span<const CpuKernel> kernels, std::int64_t most_bytes)
      : kernels_(kernels), most_bytes_(most_bytes) {}

  std::string_view type() const override { return "cpu"; }
  BufferRef allocate(std::size_t size_bytes) override;
  void run(const KernelCall& call) override;
  void copy(const Tensor& dst, const Tensor& src) override;
  void read(const Tensor& src, void* out) override;
  void write(const Tensor& dst, const void* data) override;
  MemoryUse memory() const override { return {bytes_.held(), bytes_.peak()}; }

  void release(std::size_t size_bytes, const BlockCache::Block& block);

 private:
  BlockCache::Block block_of(std::size_t size_bytes);

  std::span<const CpuKernel> kernels_;
  std::int64_t most_bytes_;
  ByteCount bytes_;
  BlockCache& cache_ = BlockCache::of_process();
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
  bytes_.add(-static_cast<std::int64_t>(size_bytes));
  if (block.size_bytes < kReusedBytes) {
    std::free(block.memory);
    return;
  }
  cache_.keep(block);
}

BlockCache::Block CpuDevice::block_of(std::size_t size_bytes) {
  BlockCache::Block block{nullptr, size_bytes};
  if (size_bytes >= kReusedBytes) block = cache_.take(size_bytes);
  if (block.memory != nullptr) return block;
  block.memory = std::malloc(size_bytes);
  if (block.memory == nullptr) {
    cache_.clear();
    block.memory = std::malloc(size_bytes);
  }
  if (block.memory == nullptr && size_bytes >= kReusedBytes) cache_.keep(block);
  ask_for_large_pages(block.memory, size_bytes);
  return block;
}

BufferRef CpuDevice::allocate(std::size_t size_bytes) {
  constexpr std::size_t kOverhead = sizeof(CpuBuffer) + kAlignment - 1;
  const auto most = static_cast<std::size_t>(most_bytes_);
  // The rough count of held bytes may be a little less than zero.
  const bool fits = size_bytes <= most - std::min(most, kOverhead) &&
                    bytes_.roughly_held() <= most_bytes_ - static_cast<std::int64_t>(size_bytes);
  const BlockCache::Block block = fits ? block_of(size_bytes + kOverhead) : BlockCache::Block{};
  if (block.memory == nullptr) {
    fail(ErrorKind::kRuntime, Fix{"use smaller tensors or fewer ranks"},
         "device cpu {} {} bytes; {} bytes are held", kCannotAllocate, size_bytes, bytes_.held());
  }
  const auto first = reinterpret_cast<std::uintptr_t>(block.memory) + kOverhead;
  void* data = reinterpret_cast<void*>(first / kAlignment * kAlignment);
  bytes_.add(static_cast<std::int64_t>(size_bytes));
  return BufferRef(new (block.memory) CpuBuffer(this, data, size_bytes, block.size_bytes));
}

void CpuDevice::run(const KernelCall& call) {
  const auto index = static_cast<std::size_t>(call.kernel);
  if (index >= kernels_.size() || kernels_[index] == nullptr) {
    fail(ErrorKind::kUnsupported,
         Fix{"register the kernel with the device before the op that runs it"},
         "device cpu has no kernel {}", index);
  }
  kernels_[index](call);
}

void CpuDevice::copy(const Tensor& dst, const Tensor& src) {
  check_invariant(dst.shape() == src.shape() && dst.dtype() == src.dtype(),
                  "Device::copy takes two tensors of one shape and dtype");
  check_within_storage(dst);
  check_within_storage(src);
  const std::int64_t bytes = item_bytes(dst.dtype());
  // The target first: writable() may replace the Buffer of a Storage that both share.
  auto* target = static_cast<std::byte*>(dst.storage()->writable()->data()) + dst.offset() * bytes;
  const BufferRef& from = src.storage()->buffer();
  const auto* source = static_cast<const std::byte*>(from->data()) + src.offset() * bytes;
  strided_copy({target, dst.stride()}, {source, src.stride()}, dst.shape(), bytes);
}

void CpuDevice::read(const Tensor& src, void* out) {
  check_within_storage(src);
  const std::int64_t bytes = item_bytes(src.dtype());
  const BufferRef& from = src.storage()->buffer();
  const auto* source = static_cast<const std::byte*>(from->data()) + src.offset() * bytes;
  strided_copy({out, contiguous_strides(src.shape())}, {source, src.stride()}, src.shape(), bytes);
}

void CpuDevice::write(const Tensor& dst, const void* data) {
  check_within_storage(dst);
  const std::int64_t bytes = item_bytes(dst.dtype());
  auto* target = static_cast<std::byte*>(dst.storage()->writable()->data()) + dst.offset() * bytes;
  strided_copy({target, dst.stride()}, {data, contiguous_strides(dst.shape())}, dst.shape(), bytes);
}

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::span<const CpuKernel> kernels,
                                        std::int64_t most_bytes) {
  return std::make_unique<CpuDevice>(kernels, most_bytes);
}

}  // namespace shardlab
