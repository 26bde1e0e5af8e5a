// One world for all lines of a file: the cost of starting a rank is paid once.
#include "tests/facts/plain_world.h"

#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "tensor/cpu_device.h"

namespace shardlab {

namespace {

// A damaged line may ask for more than there is; recorded ones take a few MiB.
constexpr std::int64_t kMostRecordedBytes = std::int64_t{1} << 28;

WorldOptions plain_options(Device& device, Propagator& propagator) {
  WorldOptions options;
  options.device = [&device](std::int64_t) -> Device& { return device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  return options;
}

}  // namespace

PlainWorld::PlainWorld()
    : device_(make_cpu_device(cpu_kernel_table(), kMostRecordedBytes)),
      propagator_(all_ops(), PlanOptions{}),
      world_(plain_options(*device_, propagator_)) {}

PlainWorld::~PlainWorld() = default;

void PlainWorld::run(const std::function<void()>& body) {
  world_.run([&](RankContext&) { body(); }).rethrow();
}

}  // namespace shardlab
