// `shardlab new`: a first program is a copy of one that is shipped and tested, comments and all.
#include <fmt/format.h>

#include <filesystem>

#include "base/fix.h"
#include "base/nearest.h"
#include "base/text_of_list.h"
#include "sim/cli/run_arguments.h"

namespace shardlab {

namespace {

constexpr std::string_view kFolder = "start";

// "mlp", "tp": the names of the programs that there are.
std::vector<std::string> start_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(std::filesystem::path(file).stem());
  return names;
}

}  // namespace

int new_command(const NewArguments& arguments) {
  const std::vector<std::string> files = scenario_files({std::string(kFolder)});
  const std::vector<std::string> names = start_names(files);
  if (arguments.file.empty()) {
    for (const std::string& file : files) {
      const ScenarioFile start = ScenarioFile::open(file, {});
      print_text(
          fmt::format("{:9} {}\n", std::filesystem::path(file).stem().string(), start.title()));
    }
    return kFine;
  }
  const std::filesystem::path path(arguments.file);
  const std::string kind = arguments.kind.empty() ? path.stem().string() : arguments.kind;
  const auto found = std::find(names.begin(), names.end(), kind);
  if (found == names.end()) {
    fail(ErrorKind::kValue,
         Fix{fmt::format("shardlab new FILE --kind KIND; kinds: {}", text_of_list(names, ", "))},
         "{}: no program to begin with is called '{}'", arguments.file, kind);
  }
  if (std::filesystem::exists(path)) {
    fail(ErrorKind::kValue, Fix{"give another name"}, "{} exists, and is left as it is",
         arguments.file);
  }
  std::error_code problem;
  std::filesystem::copy_file(files[static_cast<std::size_t>(found - names.begin())], path, problem);
  if (problem) {
    fail(ErrorKind::kValue, Fix{"give a path in a folder that is there and may be written to"},
         "{} cannot be written: {}", arguments.file, problem.message());
  }
  print_text(
      fmt::format("{} is written. Run it:\n  shardlab run {}\n", arguments.file, arguments.file));
  return kFine;
}

}  // namespace shardlab
