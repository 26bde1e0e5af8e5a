// The machine itself: processor, memory, limits; links.
#include <sys/resource.h>
#include <unistd.h>

#include <sstream>

#include "sim/doctor/probe.h"
#include "sim/doctor/system_texts.h"

namespace shardlab {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

bool has_word(const std::string& text, std::string_view wanted) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

Finding features_of(const std::string& info) {
  const std::string flags = field_of(info, "flags") + " " + field_of(info, "Features");
  std::string known;
  for (const char* feature : {"avx2", "fma", "avx512f", "amx_tile", "asimd", "sve"}) {
    if (has_word(flags, feature)) known += (known.empty() ? "" : " ") + std::string(feature);
  }
  if (has_word(flags, "avx2") || has_word(flags, "asimd")) return {"processor", "features", known};
  return {"processor", "features", known.empty() ? "none that is used" : known, Health::kLow,
          "build with -Dcpu=generic: shardlab uses AVX2 otherwise"};
}

// A limit of a control group, in bytes or 1/period; empty for none.
std::string group_limit(const MachineView& view, const std::string& file) {
  std::string text = file_text(view, "/sys/fs/cgroup/" + file);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.starts_with("max") ? "" : text;
}

using Resource = decltype(RLIMIT_NPROC);  // glibc has a type of its own, others int

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}", limit);
}

Finding limit_of(Resource resource, const char* name, const char* flag, rlim_t usual) {
  rlimit limit{};
  getrlimit(resource, &limit);
  Finding finding{"limits", name, limit_text(limit.rlim_cur)};
  if (limit.rlim_cur < usual) {
    finding.health = Health::kLow;
    finding.fix = fmt::format("ulimit {} {}", flag, limit_text(usual));
  }
  return finding;
}

}  // namespace

std::vector<Finding> examine_processor(const MachineView& view) {
  const std::string info = processor_text(view);
  const std::string model = field_of(info, "model name");
  std::string cores = fmt::format("{}", sysconf(_SC_NPROCESSORS_ONLN));
  if (const std::string quota = group_limit(view, "cpu.max"); !quota.empty()) {
    double share = 0, period = 1;
    std::istringstream(quota) >> share >> period;
    cores += fmt::format(", of which a control group grants {:.3g}", share / period);
  }
  std::vector<Finding> findings = {
      {"processor", "model", model.empty() ? "not reported" : model},
      {"processor", "cores", cores},
      features_of(info),
  };
  const std::string memory = memory_text(view);
  const auto gib = [&](const char* key) {
    return std::atof(field_of(memory, key).c_str()) * 1024 / kGiB;
  };
  std::string size =
      fmt::format("{:.1f} GiB, {:.1f} GiB of it available", gib("MemTotal"), gib("MemAvailable"));
  if (const std::string most = group_limit(view, "memory.max"); !most.empty()) {
    size += fmt::format("; a control group grants {:.1f} GiB", std::atof(most.c_str()) / kGiB);
  }
  findings.push_back({"memory", "size", memory.empty() ? "not reported" : size});
  const std::string shared = "/dev/shm";
  if (names_in(view, "/dev").empty() || access((view.root + shared).c_str(), W_OK) != 0) {
    findings.push_back({"memory", "shared", "no /dev/shm: processes of one machine cannot share it",
                        Health::kAbsent});
  }
  return findings;
}

std::vector<Finding> examine_limits(const MachineView& view) {
  constexpr long kUsualMaps = 65530;
  std::vector<Finding> findings;
  const long maps = std::atol(file_text(view, "/proc/sys/vm/max_map_count").c_str());
  if (maps > 0) {
    Finding finding{"limits", "vm.max_map_count",
                    fmt::format("{}: about {} ranks as fibers, two maps each", maps, maps / 2)};
    if (maps < kUsualMaps) {
      finding.health = Health::kLow;
      finding.fix = fmt::format("sudo sysctl vm.max_map_count={}", kUsualMaps);
    }
    findings.push_back(finding);
  }
  findings.push_back(limit_of(RLIMIT_NPROC, "threads and processes", "-u", 4096));
  findings.push_back(limit_of(RLIMIT_NOFILE, "open files", "-n", 1024));
  findings.push_back(limit_of(RLIMIT_AS, "address space", "-v", RLIM_INFINITY));
  return findings;
}

std::vector<Finding> examine_links(const MachineView& view) {
  std::vector<Finding> findings;
  for (const std::string& name : names_in(view, "/sys/class/net")) {
    if (name == "lo") continue;
    const std::string folder = "/sys/class/net/" + name;
    const long speed = std::atol(file_text(view, folder + "/speed").c_str());
    const std::string state = field_of(file_text(view, folder + "/operstate"), "");
    findings.push_back({"links", name,
                        speed > 0 ? fmt::format("{} Mbit/s, {}", speed, state)
                                  : fmt::format("{}, speed not reported", state)});
  }
  const std::vector<std::string> adapters = names_in(view, "/sys/class/infiniband");
  for (const std::string& name : adapters) {
    const std::string rate =
        field_of(file_text(view, "/sys/class/infiniband/" + name + "/ports/1/rate"), "");
    findings.push_back(
        {"links", name, "InfiniBand or RoCE, " + (rate.empty() ? "rate not reported" : rate)});
  }
  if (adapters.empty()) {
    findings.push_back({"links", "InfiniBand", "no adapter", Health::kAbsent});
  }
  return findings;
}

}  // namespace shardlab
