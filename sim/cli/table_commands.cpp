// ops, check, diff and doctor.
#include <fmt/format.h>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "backends/nccl/launch.h"
#include "dispatch/all_ops.h"
#include "sim/cli/commands.h"
#include "sim/cli/files_below.h"
#include "sim/cli/ops_tables.h"
#include "sim/doctor/doctor.h"
#include "sim/facts/chain_outcomes.h"
#include "sim/facts/check.h"
#include "sim/facts/known_differences.h"
#include "sim/report/ops_text.h"
#include "sim/report/run_diff.h"
#include "sim/world/backends.h"

namespace shardlab {

int ops_command(const OpsArguments& arguments) {
  const OpRegistry& registry = all_ops();
  if (arguments.families || !arguments.unrecorded.empty()) {
    const OpsTable table = arguments.families ? families_table(registry)
                                              : unrecorded_table(registry, arguments.unrecorded);
    print_text(arguments.common.output == Output::kJson ? table.json.dump() + "\n" : table.text);
    return kFine;
  }
  const std::string text = arguments.common.output == Output::kJson
                               ? ops_json(registry, arguments.name) + "\n"
                               : ops_text(registry, arguments.name, sampled_call);
  print_text(text);
  return kFine;
}

namespace {

// The first failure that a scenario shows.
int print_scenario(const CheckSummary& summary) {
  for (const CheckFailure& failure : summary.failures) {
    if (failure.scenario.empty()) continue;
    const std::string text = fmt::format("# {}\n# expected {}\n# got      {}\n{}", failure.field,
                                         failure.expected, failure.got, failure.scenario);
    print_text(text);
    return kFailed;
  }
  std::fputs("# no failure is shown by a scenario\n", stdout);
  return summary.failed == 0 ? kFine : kFailed;
}

}  // namespace

int check_command(const CheckArguments& given) {
  CheckArguments arguments = given;
  arguments.files.clear();
  for (const std::string& path : given.files) {
    const auto found = files_below(path, {".jsonl", ".jsonl.gz"}, "facts");
    arguments.files.insert(arguments.files.end(), found.begin(), found.end());
  }
  if (arguments.shard) return check_shards_command(arguments);
  KnownDifferences known;
  if (!arguments.known.empty()) {
    known = KnownDifferences::read(arguments.known);
  } else if (const auto found = KnownDifferences::find_file(arguments.files.front())) {
    known = KnownDifferences::read(*found);
  }
  ChainOutcomes outcomes;
  if (!arguments.outcomes.empty()) outcomes = ChainOutcomes::read(arguments.outcomes);
  CheckOptions options = outcomes.options;
  options.max_shown = arguments.max_shown;
  options.list_skipped = arguments.list_skipped;
  options.id = arguments.id;
  options.seed = arguments.seed.value_or(options.seed);
  options.draws = arguments.draws.value_or(options.draws);
  CheckRun run(check_families(), &known, options);
  for (const std::string& file : arguments.files) run.check_file(file);
  CheckSummary summary = run.finish();
  if (!arguments.outcomes.empty()) outcomes.compare(arguments.outcomes, summary);
  if (arguments.as_scenario) return print_scenario(summary);
  const std::string text =
      arguments.common.output == Output::kJson ? summary.json().dump() + "\n" : summary.text();
  print_text(text);
  return summary.failed == 0 ? kFine : kFailed;
}

int diff_command(const DiffArguments& arguments) {
  const std::vector<RunDiff> runs = diff_runs(arguments.a, arguments.b);
  const bool json = arguments.common.output == Output::kJson;
  const std::string text =
      json ? diff_json(runs) + "\n"
           : diff_text(runs, arguments.a, arguments.b, arguments.common.stdout_color());
  print_text(text);
  for (const RunDiff& run : runs) {
    if (!run.equal()) return kFailed;
  }
  return kFine;
}

int doctor_command(const DoctorArguments& arguments) {
  const char* path = std::getenv("PATH");
  std::vector<std::string> backends;
  for (const std::string_view name : backend_names()) backends.emplace_back(name);
  const std::vector<Finding> findings = examine(
      {.root = "", .path = path != nullptr ? path : "", .variable = nccl::environment}, backends);
  const bool json = arguments.common.output == Output::kJson;
  const std::string text =
      json ? doctor_json(findings) + "\n" : doctor_text(findings, arguments.common.stdout_color());
  print_text(text);
  return kFine;
}

}  // namespace shardlab
