// Freed blocks are kept by size and used again for requests up to a quarter smaller; when the
// device has no memory left, all of them are given back first.
#include "backends/cuda/memory_pool.h"

namespace shardlab::cuda {

namespace {

constexpr std::size_t kUnit = 512;

}  // namespace

MemoryPool::Block MemoryPool::take(std::size_t size_bytes) {
  const std::size_t wanted = size_bytes == 0 ? kUnit : (size_bytes + kUnit - 1) / kUnit * kUnit;
  if (wanted < size_bytes) return {};
  const auto found = kept_.lower_bound(wanted);
  if (found != kept_.end() && found->first <= wanted + wanted / 4) {
    const Block block{found->second, found->first};
    kept_.erase(found);
    return block;
  }
  void* data = nullptr;
  if (table_.allocate(context_, wanted, &data) == nullptr && data != nullptr) return {data, wanted};
  if (kept_.empty()) return {};
  release_kept();
  data = nullptr;
  if (table_.allocate(context_, wanted, &data) != nullptr || data == nullptr) return {};
  return {data, wanted};
}

void MemoryPool::keep(const Block& block) { kept_.emplace(block.size_bytes, block.data); }

void MemoryPool::release_kept() {
  for (const auto& [size, data] : kept_) table_.release(context_, data);
  kept_.clear();
}

}  // namespace shardlab::cuda
