// show: questions about one type, or about one checkpoint, without a run.
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "sim/cli/commands.h"
#include "sim/cli/spec_arguments.h"
#include "sim/report/checkpoint_report.h"

namespace shardlab {

namespace {

std::string checkpoint_report(const SpecArguments& arguments) {
  const Checkpoint checkpoint = Checkpoint::open(arguments.texts.front());
  if (arguments.common.json) return checkpoint_json(checkpoint) + "\n";
  if (arguments.tensor.empty()) return checkpoint_text(checkpoint, arguments.full);
  if (const StoredTensor* tensor = checkpoint.find(arguments.tensor)) {
    return stored_tensor_text(checkpoint, *tensor, {.color = arguments.common.stdout_color()});
  }
  std::vector<std::string> known;
  for (const StoredTensor& tensor : checkpoint.tensors()) known.push_back(tensor.name);
  fail(Fix{suggest(arguments.tensor, known)}, "{} has no tensor '{}'", checkpoint.path(),
       arguments.tensor);
}

}  // namespace

int show_command(const SpecArguments& arguments) {
  if (arguments.mesh.empty() && std::filesystem::exists(arguments.texts.front())) {
    print_text(checkpoint_report(arguments));
    return kFine;
  }
  if (arguments.mesh.empty()) {
    fail(Fix{"give --mesh x=2,y=3, or the path of a checkpoint"},
         "show: a type needs a mesh, and {} is no path", arguments.texts.front());
  }
  const DTensorSpec* spec = parse_spec(arguments.texts.front(), parse_mesh(arguments.mesh));
  const std::string text = arguments.common.json
                               ? json_of_spec(*spec) + "\n"
                               : draw_spec(*spec, {.color = arguments.common.stdout_color()});
  print_text(text);
  return kFine;
}

}  // namespace shardlab
