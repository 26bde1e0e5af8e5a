// Points run one after the other until one fails.
#include "sim/cli/failing_point.h"

#include "base/fix.h"
#include "dispatch/all_ops.h"
#include "sim/cli/run_arguments.h"
#include "sim/edit/symptom.h"

namespace shardlab {

Scenario first_point(const std::string& path, const RunArguments& arguments) {
  const ScenarioFile file = ScenarioFile::open(path, settings_of(arguments));
  return file.at(file.points().front());
}

Scenario failing_point(const std::string& path, const RunArguments& arguments) {
  const ScenarioFile file = ScenarioFile::open(path, settings_of(arguments));
  for (const MatrixPoint& point : file.points()) {
    Scenario scenario = file.at(point);
    if (file.points().size() == 1) return scenario;
    const ScenarioResult result =
        run_scenario(scenario, all_ops(), options_of(arguments, scenario));
    if (symptom_of(result).kind != Symptom::Kind::kNone) return scenario;
  }
  fail(ErrorKind::kValue, Fix{"give a scenario that fails, or --set and --seed with which it does"},
       "{}: nothing is wrong at any point of its matrix", path);
}

}  // namespace shardlab
