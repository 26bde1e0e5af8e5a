// The launcher of this process, as backend nccl reads it, and the device it would take.
#include <algorithm>

#include "backends/nccl/launch.h"
#include "base/error.h"
#include "base/text.h"
#include "sim/doctor/probe.h"

namespace shardlab {

namespace {

Finding device_finding(const MachineView& view, const nccl::Launch& launch,
                       const nccl::Lookup& lookup) {
  const std::optional<std::string> shown = lookup("CUDA_VISIBLE_DEVICES");
  const auto visible = shown ? 1 + std::ranges::count(*shown, ',')
                             : std::ssize(names_in(view, "/proc/driver/nvidia/gpus"));
  const int ordinal = nccl::ordinal_of(launch, lookup, static_cast<int>(visible));
  const std::string why = shown ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *shown) : "";
  Finding finding{"launch", "device", fmt::format("{} of {} visible{}", ordinal, visible, why)};
  if (ordinal >= visible) {
    finding.health = Health::kAbsent;
    finding.fix = visible == 0 ? "" : "SHARDLAB_DEVICE_ORDINAL names the device of each rank";
  }
  return finding;
}

std::string listening_text(const nccl::Launch& launch) {
  std::string text = fmt::format("listens at {} port {}", launch.host, launch.port);
  if (launch.ports > 1) {
    text += fmt::format(", or the first free one up to {}", launch.port + launch.ports - 1);
  }
  return text;
}

}  // namespace

std::vector<Finding> examine_launch(const MachineView& view) {
  const nccl::Lookup lookup = [&](const std::string& name) {
    return view.variable ? view.variable(name) : std::nullopt;
  };
  std::vector<std::string> launchers = nccl::launchers_of(lookup);
  if (launchers.empty()) {
    return {
        {"launch", "started by", "no launcher of ranks: simulated ranks only", Health::kAbsent}};
  }
  try {
    const nccl::Launch launch = nccl::launch_of(lookup);
    std::vector<Finding> findings{
        {"launch", "started by", launch.by},
        {"launch", "rank",
         fmt::format("{} of {}, {} on its host", launch.rank, launch.size, launch.local_rank)},
        {"launch", "rank 0", listening_text(launch)},
        device_finding(view, launch, lookup)};
    launchers.erase(launchers.begin());
    if (!launchers.empty()) {
      findings.push_back({"launch", "not looked at",
                          fmt::format("what {} set outside of it", text_of_list(launchers, ", "))});
    }
    return findings;
  } catch (const Error& error) {
    const std::string* fix = error.find("fix");
    return {{"launch", "started by", error.summary(), Health::kLow, fix == nullptr ? "" : *fix}};
  }
}

}  // namespace shardlab
