// `shardlab new`: a first program is a copy of one that is shipped and tested, comments and all.
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
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
  std::vector<std::string> names = start_names(files);
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
  // A pipeline schedule is next to the programs.
  const bool schedule = path.extension() == ".csv";
  const auto source =
      std::filesystem::path(files.front()).replace_filename(kind + (schedule ? ".csv" : ".toml"));
  if (!std::filesystem::exists(source)) {
    names.emplace_back("schedule (.csv)");
    fail(Fix{fmt::format("shardlab new FILE --kind KIND; kinds: {}", text_of_list(names, ", "))},
         "{}: no program to begin with is called '{}'", arguments.file, kind);
  }
  if (std::filesystem::exists(path)) {
    fail(Fix{"give another name"}, "{} exists, and is left as it is", arguments.file);
  }
  std::error_code problem;
  std::filesystem::copy_file(source, path, problem);
  if (problem) {
    fail(Fix{"give a path in a folder that is there and may be written to"},
         "{} cannot be written: {}", arguments.file, problem.message());
  }
  print_text(fmt::format("{0} is written. {1} it:\n  shardlab {2} {0}\n", arguments.file,
                         schedule ? "Prove" : "Run", schedule ? "prove" : "run"));
  return kFine;
}

}  // namespace shardlab
