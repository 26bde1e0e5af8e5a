// plain_world.h - one rank without a mesh, for recorded calls on plain tensors.
#pragma once

#include <functional>
#include <memory>

#include "propagate/propagator.h"
#include "sim/world/world.h"
#include "tensor/device.h"
#include "tests/facts/check.h"

namespace shardlab {

/// The device of plain worlds made from now on: cpu, or cuda.
void set_plain_device(std::string_view type);

/// Tensors of a run live as long as this. Used by one thread.
class PlainWorld {
 public:
  PlainWorld();
  ~PlainWorld();

  Device& device() { return *device_; }
  /// Runs `body` on the rank, below autograd or not as it likes.
  ///   fails  what the rank threw
  void run(const std::function<void()>& body);
  /// The same, where what the device has no kernel for is skipped.
  void run(CaseReport& report, const std::function<void()>& body);
  /// Whether it is an error of a device that does not have all kernels.
  bool lacks(const Error& error) const;

 private:
  std::unique_ptr<Device> device_;
  Propagator propagator_;
  World world_;
};

}  // namespace shardlab
