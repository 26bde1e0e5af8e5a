// local_side.h - the memory of a communicator: order between a device's work and the stream of
// collectives, reductions that NCCL does not do, and floats as integers, which it reduces.
#pragma once

#include <functional>
#include <memory>

#include "backends/nccl/api.h"
#include "backends/shared/ordered.h"
#include "backends/shared/reduce.h"
#include "backends/shared/stream_device.h"
#include "tensor/device.h"

namespace shardlab::nccl {

/// One for host memory and one for devices with a stream; used by the session's thread.
class LocalSide {
 public:
  /// The side that waits until a collective is over.
  enum class Waits { kHost, kStream };

  virtual ~LocalSide() = default;
  virtual Waits waits() const = 0;
  /// `collectives` begins later work after all that the device was given so far.
  virtual void order_before(const Api& api, Stream collectives) = 0;
  /// The device begins later work after `done`. Only where a stream waits.
  virtual void order_after(const Api& api, Event done) = 0;
  /// In order with the device's other work.
  virtual void reduce(const backends::Reduction& work) = 0;
  virtual void order(const backends::Ordering& work) = 0;
  /// Called while the host waits for the device's stream (StreamDevice::watch).
  virtual void watch(backends::StreamWatch watch) = 0;
};

/// Memory of the host, whose work is over when it returns: with the double. Or that of a device
/// with a stream.
std::unique_ptr<LocalSide> make_local_side(Device& device);

}  // namespace shardlab::nccl
