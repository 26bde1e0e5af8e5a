#include "tests/support/on_ranks.h"

#include <cstdlib>

#include "sim/world/devices.h"
#include "tensor/cpu_device.h"

namespace shardlab {

namespace {

std::unique_ptr<Device> make_plain_device() {
  const char* name = std::getenv("SHARDLAB_DEVICE");
  if (name == nullptr) return make_cpu_device({});
  const char* stage = std::getenv("SHARDLAB_STAGE");
  return make_device({.name = name}, stage == nullptr ? "threads" : stage);
}

}  // namespace

Device& plain_device() {
  static const std::unique_ptr<Device> device = make_plain_device();
  return *device;
}

WorldOptions plain_world(std::int64_t ranks, SchedulerKind kind) {
  WorldOptions options;
  options.ranks = ranks;
  options.schedule.kind = kind;
  options.checks = CollectiveChecks::kOff;  // backends have to find by themselves what these find
  options.device = [](std::int64_t) -> Device& { return plain_device(); };
  return options;
}

void on_ranks(std::int64_t ranks, const std::function<void(RankContext&)>& body) {
  on_ranks(plain_world(ranks), body);
}

void on_ranks(const WorldOptions& options, const std::function<void(RankContext&)>& body) {
  run_world(options, body).rethrow();
}

}  // namespace shardlab
