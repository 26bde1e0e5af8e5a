// plain_world.h - one rank without a mesh, for recorded calls on plain tensors.
#pragma once

#include <functional>
#include <memory>

#include "propagate/propagator.h"
#include "sim/world/world.h"
#include "tensor/device.h"

namespace shardlab {

/// Tensors of a run live as long as this. Used by one thread.
class PlainWorld {
 public:
  PlainWorld();
  ~PlainWorld();

  Device& device() { return *device_; }
  /// Runs `body` on the rank, below autograd or not as it likes.
  ///   fails  what the rank threw
  void run(const std::function<void()>& body);

 private:
  std::unique_ptr<Device> device_;
  Propagator propagator_;
  World world_;
};

}  // namespace shardlab
