// buffer.h - counted device memory. Ranks may share a Buffer; a shared one is never written
// (Storage::writable copies first). Safe to hold and drop on any thread.
#pragma once

#include <cstddef>

#include "base/ref.h"

namespace shardlab {

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

}  // namespace shardlab
