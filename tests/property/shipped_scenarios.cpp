#include "tests/property/shipped_scenarios.h"

#include <algorithm>
#include <filesystem>

#include "sim/judge/scenario_run.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab::test {

std::vector<ShippedScenario> shipped_scenarios() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("scenarios")) {
    // Programs of the zoo are wrong, or the twins of such: tests/verdicts has a test of them.
    const bool zoo = entry.path().parent_path().filename() == "zoo";
    if (entry.path().extension() == ".toml" && !zoo) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ShippedScenario> scenarios;
  for (const std::string& path : paths) {
    const ScenarioFile file = ScenarioFile::open(path, {});
    for (const MatrixPoint& point : file.points()) {
      Scenario scenario = file.at(point);
      if (scenario.backend == "fake") continue;
      scenarios.push_back(
          {point.name.empty() ? path : path + " " + point.name, std::move(scenario)});
    }
  }
  return scenarios;
}

bool takes_what_comes_first(const ScenarioResult& result) { return result.run.takes_from_any(); }

}  // namespace shardlab::test
