// show: questions about one type, without a run.
#include <cstdio>

#include "sim/cli/commands.h"
#include "sim/cli/spec_arguments.h"
#include "sim/report/spec_json.h"

namespace shardlab {

int show_command(const SpecArguments& arguments) {
  const DTensorSpec* spec = parse_spec(arguments.texts.front(), parse_mesh(arguments.mesh));
  const std::string text = arguments.common.output == Output::kJson
                               ? json_of_spec(*spec) + "\n"
                               : draw_spec(*spec, {.color = arguments.common.stdout_color()});
  print_text(text);
  return kFine;
}

}  // namespace shardlab
