// stream_device.h - a device whose work runs behind the host, in order on one stream: what backends
// must know to order their own streams with it, and to combine ranks' terms in its memory.
#pragma once

#include <functional>

#include "backends/shared/reduce.h"
#include "tensor/device.h"

namespace shardlab::backends {

/// A device whose work is ordered by one CUDA stream. Backends that know streams ask for it with
/// stream_of().
class StreamDevice : public Device {
 public:
  /// cudaStream_t of all its work.
  virtual void* stream() const = 0;
  /// Terms that follow each other in device memory (rows of one), combined in rank order as
  /// backends::reduce does. Fails with Unsupported where the device does not compute in the dtype.
  virtual void combine(const Reduction& work) = 0;
  /// Called whenever the host has waited for the stream: throws when what it waited for was cut
  /// short. None: nothing to ask.
  virtual void check_after_wait(std::function<void()> check) = 0;
};

/// The device as one with a stream; null for devices whose work is over when a call returns.
StreamDevice* stream_of(Device& device);

}  // namespace shardlab::backends
