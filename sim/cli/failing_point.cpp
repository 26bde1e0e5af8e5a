// Points run one after the other until one fails.
#include "sim/cli/failing_point.h"

#include <memory>

#include "base/fix.h"
#include "dispatch/all_ops.h"
#include "sim/cli/run_arguments.h"
#include "sim/edit/symptom.h"
#include "sim/graph/graph_file.h"
#include "sim/graph/graph_scenario.h"
#include "sim/recording/recording_file.h"

namespace shardlab {

OpenedRecording open_any(const std::string& path, const RunArguments& arguments) {
  if (!is_recording_file(path)) return {open_scenario(path, arguments), nullptr};
  int code = kFine;
  RunArguments quiet = arguments;
  quiet.common.json = true;  // stdout is for the answer
  auto recording = open_recording(path, quiet, code);
  if (recording) return std::move(*recording);
  fail(Fix{"look at the first that differs: shardlab blame " + path},
       "{}: on one rank the program does not give PyTorch's values", path);
}

ScenarioFile open_scenario(const std::string& path, const RunArguments& arguments) {
  if (!path.ends_with(".graph")) return ScenarioFile::open(path, settings_of(arguments));
  auto text = std::make_shared<SourceText>(path, graph_scenario(graphs_of_file(path), all_ops()));
  return ScenarioFile::read(std::move(text), settings_of(arguments));
}

Scenario failing_point(const std::string& path, const RunArguments& arguments) {
  const ScenarioFile file = open_any(path, arguments).file;
  for (const MatrixPoint& point : file.points()) {
    Scenario scenario = file.at(point);
    if (file.points().size() == 1) return scenario;
    const ScenarioResult result =
        run_scenario(scenario, all_ops(), options_of(arguments, scenario));
    if (symptom_of(result).kind != Symptom::Kind::kNone) return scenario;
  }
  fail(Fix{"give a scenario that fails, or --set and --seed with which it does"},
       "{}: nothing is wrong at any point of its matrix", path);
}

}  // namespace shardlab
