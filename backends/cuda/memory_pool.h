// memory_pool.h - device memory that is used again: cudaMalloc and cudaFree wait for the device.
// Sound because all work on it is issued on one stream. Not thread-safe: its device takes turns.
#pragma once

#include <cstddef>
#include <map>

#include "backends/cuda/table.h"

namespace shardlab::cuda {

class MemoryPool {
 public:
  MemoryPool(const Table& table, Context* context) : table_(table), context_(context) {}
  ~MemoryPool() { release_kept(); }
  MemoryPool& operator=(MemoryPool&&) = delete;

  struct Block {
    void* data = nullptr;
    std::size_t size_bytes = 0;
  };

  /// At least this many bytes, at most a quarter and 512 more; null data when there is no memory
  /// left, also after all kept blocks have been given back.
  Block take(std::size_t size_bytes);
  void keep(const Block& block);

 private:
  void release_kept();

  const Table& table_;
  Context* const context_;
  std::multimap<std::size_t, void*> kept_;
};

}  // namespace shardlab::cuda
