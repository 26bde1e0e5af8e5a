// The report of `shardlab doctor`: each finding with its fix.
#include "sim/doctor/doctor.h"

#include <algorithm>

#include "sim/files/json_value.h"
#include "sim/report/paint.h"

namespace shardlab {

namespace {

bool absent(const std::vector<Finding>& findings, std::string_view area, std::string_view name) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.area == area && finding.name == name && finding.health == Health::kAbsent;
  });
}

// The needs of each backend beyond being built in.
Finding backend_finding(const std::vector<Finding>& findings,
                        const std::vector<std::string>& backends, const std::string& name,
                        const std::string& about) {
  const bool built = std::find(backends.begin(), backends.end(), name) != backends.end();
  if (!built) {
    return {"runs", "backend " + name, about + ": this program was built without it",
            Health::kAbsent};
  }
  if (name == "mpi" && absent(findings, "mpi", "mpirun")) {
    return {"runs", "backend mpi", about + ": needs mpirun", Health::kAbsent};
  }
  if (name == "nccl" && (absent(findings, "cuda", "GPUs") || absent(findings, "cuda", "libnccl"))) {
    return {"runs", "backend nccl", about + ": needs GPUs and libnccl", Health::kAbsent};
  }
  return {"runs", "backend " + name, about};
}

std::string_view text_of(Health health) {
  return health == Health::kGood ? "good" : health == Health::kAbsent ? "absent" : "low";
}

std::string mark(Health health, Color color) {
  switch (health) {
    case Health::kGood:
      return paint("ok", Ink::kGood, color) + "  ";
    case Health::kAbsent:
      return paint("--", Ink::kDim, color) + "  ";
    case Health::kLow:
      return paint("low", Ink::kWarn, color) + " ";
  }
  return "";
}

}  // namespace

std::vector<Finding> examine(const MachineView& view, const std::vector<std::string>& backends) {
  std::vector<Finding> findings;
  for (const auto part : {examine_processor, examine_limits, examine_links, examine_mpi,
                          examine_cuda, examine_launch}) {
    for (Finding& finding : part(view)) findings.push_back(std::move(finding));
  }
  for (const auto& [name, about] : std::initializer_list<std::pair<const char*, const char*>>{
           {"threads", "simulated ranks in one process"},
           {"fake", "a million ranks, shapes only"},
           {"mpi", "one rank a process"},
           {"nccl", "one rank a GPU"}}) {
    findings.push_back(backend_finding(findings, backends, name, about));
  }
  return findings;
}

std::string doctor_text(const std::vector<Finding>& findings, Color color) {
  std::string out, area, fixes;
  for (const Finding& finding : findings) {
    if (finding.area != area) {
      area = finding.area;
      out += (out.empty() ? "" : "\n") + paint(area, Ink::kTitle, color) + "\n";
    }
    out += fmt::format("  {}{:<22} {}\n", mark(finding.health, color), finding.name, finding.value);
    if (finding.fix.empty()) continue;
    const std::string line = fmt::format("  {} {}: {}\n", finding.area, finding.name, finding.fix);
    if (fixes.find(": " + finding.fix + "\n") == std::string::npos) fixes += line;
  }
  if (!fixes.empty()) out += "\n" + paint("what would help", Ink::kTitle, color) + "\n" + fixes;
  return out;
}

std::string doctor_json(const std::vector<Finding>& findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"area", finding.area},
                    {"name", finding.name},
                    {"value", finding.value},
                    {"health", text_of(finding.health)},
                    {"fix", finding.fix}});
  }
  return nlohmann::json{{"findings", list}}.dump(-1, ' ', false,
                                                 nlohmann::json::error_handler_t::replace);
}

}  // namespace shardlab
