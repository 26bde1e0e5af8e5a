// stream_device.h - a device whose work runs behind the host, in order on one stream: the facts
// that backends need to order their own streams with it, and to combine ranks' terms in its memory.
#pragma once

#include <chrono>
#include <functional>

#include "backends/shared/ordered.h"
#include "backends/shared/reduce.h"
#include "tensor/device.h"

namespace shardlab::backends {

/// Called while the host waits for a stream, which it has done for `waited`: throws when the
/// awaited work cannot finish, or was cut short.
using StreamWatch = std::function<void(std::chrono::milliseconds waited)>;

/// A device whose work is ordered by one CUDA stream. Backends with streams find it by stream_of().
class StreamDevice : public Device {
 public:
  /// cudaStream_t of all its work.
  virtual void* stream() const = 0;
  /// Terms that follow each other in device memory (rows of one), combined in rank order as
  /// backends::reduce does. Fails with Unsupported where the device does not compute in the dtype.
  virtual void combine(const Reduction& work) = 0;
  /// Does what backends::order does, in device memory.
  virtual void order(const Ordering& work) = 0;
  /// Called repeatedly while the host waits for the stream, and once when it has, before the
  /// stream's results are read. None: not called.
  virtual void watch(StreamWatch watch) = 0;
};

/// The device as one with a stream; null for devices whose work is over when a call returns.
StreamDevice* stream_of(Device& device);

}  // namespace shardlab::backends
