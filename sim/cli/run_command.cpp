#include "ops/register.h"
#include "sim/cli/run_arguments.h"

namespace shardlab {

int run_command(const RunArguments& arguments) {
  OpRegistry registry;
  register_all_ops(registry);
  int code = kFine;
  bool first = true;
  for (const std::string& path : scenario_files(arguments.files)) {
    const ScenarioFile file = ScenarioFile::open(path, settings_of(arguments));
    for (const MatrixPoint& point : file.points()) {
      const ScenarioResult result = run_scenario(file.at(point), registry, options_of(arguments));
      const bool shown = !result.reported_elsewhere;
      if (!first && shown && arguments.common.output == Output::kText) print({"\n", ""});
      print(output_of(result, arguments));
      first = false;
      if (!result.met()) code = kFailed;
    }
  }
  return code;
}

}  // namespace shardlab
