// Reads the arguments of check: recorded facts of PyTorch against our answers.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "sim/cli/interrupts.h"
#include "sim/cli/options.h"
#include "tests/facts/check_arguments.h"

namespace {

using namespace shardlab;

void add_common(CLI::App& check, CommonArguments& common) {
  check
      .add_option("--color", common.color, "colours: auto, always or never (NO_COLOR is honoured)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  check.add_flag_callback(
      "--json", [&common] { common.json = true; }, "the same facts for machines");
}

void add_options(CLI::App& check, CheckArguments& arguments) {
  check.add_option("FILE", arguments.files, "facts: .jsonl or .jsonl.gz, or folders of them")
      ->required();
  check.add_option("--max-shown", arguments.max_shown, "failing lines to print");
  check.add_flag("--skipped", arguments.list_skipped, "name each line that is skipped, and why");
  check.add_option("--known", arguments.known,
                   "known_differences.toml (default: the nearest above the first file)");
  check.add_option("--id", arguments.id, "only the line with this id");
  check.add_option("--seed", arguments.seed, "of drawn meshes and placements");
  check.add_option("--draws", arguments.draws, "of each program that is run")
      ->check(whole_number_from(0));
  check.add_option("--outcomes", arguments.outcomes, "file of the counts that are expected");
  check.add_option("--device", arguments.device, "of calls on plain tensors: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  check.add_flag("--as-scenario", arguments.as_scenario,
                 "print the first failing program as a scenario and nothing else");
  auto* shard = check.add_flag("--shard", arguments.shard,
                               "op sequences with their inputs placed in every way on meshes of "
                               "4, of 3 and of 2 x 2 ranks, against one device");
  check.add_option("--workers", arguments.workers, "OpInfos at once (default: a processor each)")
      ->needs(shard)
      ->check(CLI::Range(1, 1024));
  for (const char* name : {"--known", "--outcomes", "--as-scenario", "--max-shown", "--skipped"}) {
    shard->excludes(name);
  }
  add_common(check, arguments.common);
  check.footer(
      "Examples:\n"
      "  build/tests/facts/check tests/golden/facts/layout/*.gz\n"
      "  build/tests/facts/check --max-shown 3 tests/golden/facts/propagate/matrix.jsonl.gz\n"
      "  build/tests/facts/check --shard tests/golden/facts/kernels/opinfo_aten.jsonl.gz\n"
      "With --shard, --draws is how many placements of each sequence are tried on each mesh (64).\n"
      "moved: right once operands were made replicas, as the refusal of a view or a write asks.\n"
      "Exit codes: 0 all agree, 1 some do not, 2 it can't run as written.");
}

// Other .json files next to facts say something else.
bool tells_of_checkpoint(const std::string& path) {
  std::string begin(4096, '\0');
  std::ifstream(path).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return !path.ends_with(".json") || begin.find("\"tensors\"") != std::string::npos;
}

std::vector<std::string> facts_below(const std::string& path) {
  std::vector<std::string> files = files_below(path, {".jsonl", ".jsonl.gz", ".json"}, "facts");
  if (std::filesystem::is_directory(path)) {
    std::erase_if(files, [](const std::string& file) { return !tells_of_checkpoint(file); });
  }
  return files;
}

int check(CheckArguments arguments) {
  std::vector<std::string> files;
  for (const std::string& path : arguments.files) {
    for (std::string& file : facts_below(path)) {
      files.push_back(std::move(file));
    }
  }
  arguments.files = std::move(files);
  return arguments.shard ? check_shards(arguments) : check_facts(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  report_on_interrupt();
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("compare recorded facts with our answers");
  CheckArguments arguments;
  add_options(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fputs(fmt::format("error: check: {}\n  fix         check --help\n", error.what()).c_str(),
               stderr);
    return kCannotRun;
  }
  return guarded([&] { return check(arguments); });
}
