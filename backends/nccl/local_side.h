// local_side.h - the memory of a communicator: order between a device's work and the stream of
// collectives, reductions that NCCL does not do, and floats as integers, which it reduces.
#pragma once

#include "backends/nccl/api.h"
#include "backends/shared/ordered.h"
#include "backends/shared/reduce.h"
#include "backends/shared/stream_device.h"
#include "tensor/device.h"

namespace shardlab::nccl {

/// Memory of the host, whose work is over when it returns: with the double. Or that of a device
/// with a stream, where the host never waits. Used by the session's thread.
class LocalSide {
 public:
  explicit LocalSide(Device& device) : device_(backends::stream_of(device)) {}
  ~LocalSide();
  LocalSide& operator=(LocalSide&&) = delete;

  /// Whether the device's stream waits until a collective is over; else the host does.
  bool stream_waits() const { return device_ != nullptr; }
  /// `collectives` begins later work after all that the device was given so far.
  void order_before(const Api& api, Stream collectives);
  /// The device begins later work after `done`. Only where a stream waits.
  void order_after(const Api& api, Event done);
  /// In order with the device's other work.
  void reduce(const backends::Reduction& work) {
    device_ != nullptr ? device_->combine(work) : backends::reduce(work);
  }
  void order(const backends::Ordering& work) {
    device_ != nullptr ? device_->order(work) : backends::order(work);
  }
  /// Called while the host waits for the device's stream (StreamDevice::watch).
  void watch(backends::StreamWatch watch) {
    if (device_ != nullptr) device_->watch(std::move(watch));
  }

 private:
  Stream stream() const { return static_cast<Stream>(device_->stream()); }

  backends::StreamDevice* const device_;  ///< null: memory of the host
  Api api_ = {};                          ///< a copy: a side outlives the session that calls it
  Event so_far_ = nullptr;
};

}  // namespace shardlab::nccl
