// doctor.h - this machine's features and the backends that will run on it: `shardlab doctor`. Looks
// at files, asks libraries for their versions, and touches no network. Absence is an answer, never
// a failure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/show.h"

namespace shardlab {

/// The meaning of a finding.
enum class Health : std::uint8_t {
  kGood,    ///< present
  kAbsent,  ///< absent; programs that need it do not run
  kLow,     ///< present, but less than is usual
};

/// One fact about the machine.
struct Finding {
  std::string area;  ///< "processor", "memory", "limits", "mpi", "cuda", "links", "launch", "runs"
  std::string name;  ///< "features"
  std::string value;
  Health health = Health::kGood;
  std::string fix;  ///< the command that helps; empty when nothing needs to be done
};

/// The root and path of the search; another root in tests.
struct MachineView {
  std::string root;  ///< before "/proc/cpuinfo"; empty: this machine
  std::string path;  ///< folders of programs, as in PATH
  /// A variable of the environment; none: it is not set.
  std::function<std::optional<std::string>(const std::string& name)> variable = nullptr;
};

/// In the order of the areas. `backends`: those that this program was built with.
std::vector<Finding> examine(const MachineView& view, const std::vector<std::string>& backends);

// Parts of examine().
std::vector<Finding> examine_processor(const MachineView& view);
std::vector<Finding> examine_limits(const MachineView& view);
std::vector<Finding> examine_mpi(const MachineView& view);
std::vector<Finding> examine_cuda(const MachineView& view);
std::vector<Finding> examine_links(const MachineView& view);
std::vector<Finding> examine_launch(const MachineView& view);

std::string doctor_text(const std::vector<Finding>& findings, Color color);
/// One object: "findings", in order.
std::string doctor_json(const std::vector<Finding>& findings);

}  // namespace shardlab
