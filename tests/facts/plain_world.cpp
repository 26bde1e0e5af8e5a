// One world for all lines of a file: the cost of starting a rank is paid once.
#include "tests/facts/plain_world.h"

#include "backends/cuda/cuda.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "tensor/cpu_device.h"

namespace shardlab {

namespace {

// A damaged line may ask for more than there is; recorded ones take a few MiB.
constexpr std::int64_t kMostRecordedBytes = std::int64_t{1} << 28;

bool on_cuda = false;

std::unique_ptr<Device> make_plain_device() {
  if (on_cuda) return cuda::make_cuda_device(0, cuda::HostFallback::kRefuse);
  return make_cpu_device(cpu_kernel_table(), kMostRecordedBytes);
}

WorldOptions plain_options(Device& device, Propagator& propagator) {
  WorldOptions options;
  options.device = [&device](std::int64_t) -> Device& { return device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  return options;
}

}  // namespace

void set_plain_device(std::string_view type) { on_cuda = type == "cuda"; }

PlainWorld::PlainWorld()
    : device_(make_plain_device()),
      propagator_(all_ops(), PlanOptions{}),
      world_(plain_options(*device_, propagator_)) {}

PlainWorld::~PlainWorld() = default;

bool PlainWorld::lacks(const Error& error) const {
  return device_->type() != "cpu" && error.kind() == ErrorKind::kUnsupported;
}

void PlainWorld::run(const std::function<void()>& body) {
  world_.run([&](RankContext&) { body(); }).rethrow();
}

void PlainWorld::run(CaseReport& report, const std::function<void()>& body) {
  try {
    run(body);
  } catch (const Error& error) {
    if (!lacks(error)) throw;
    report.skip(SkipReason::kNotSupported, "the device has no kernel for it");
  }
}

}  // namespace shardlab
