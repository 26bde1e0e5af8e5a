// ops, diff and doctor.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "backends/nccl/launch.h"
#include "base/fix.h"
#include "dispatch/all_ops.h"
#include "sim/cli/commands.h"
#include "sim/cli/ops_tables.h"
#include "sim/doctor/doctor.h"
#include "sim/files/json_value.h"
#include "sim/report/ops_text.h"
#include "sim/report/run_diff.h"
#include "sim/report/run_gate.h"
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

int gate_command(const DiffArguments& arguments) {
  const std::vector<Gate> gates = parse_gates(arguments.gate);
  const auto stored = read_runs(arguments.a), found = read_runs(arguments.b);
  std::vector<GatedRun> runs;
  try {
    runs = gate_runs(stored, found, gates);
  } catch (const nlohmann::json::exception& error) {
    fail(Fix{"write both with shardlab run --json"}, "{} or {}: {}", arguments.a, arguments.b,
         error.what());
  }
  print_text(arguments.common.output == Output::kJson ? gate_json(runs) + "\n" : gate_text(runs));
  return std::ranges::all_of(runs, &GatedRun::met) ? kFine : kFailed;
}

}  // namespace

int diff_command(const DiffArguments& arguments) {
  if (!arguments.gate.empty()) return gate_command(arguments);
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
