// ops, diff, doctor and types.
#include <algorithm>
#include <cstdlib>

#include "backends/nccl/launch.h"
#include "base/error.h"
#include "dispatch/all_ops.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "sim/checkpoint/file_bytes.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/doctor/doctor.h"
#include "sim/edit/type_inference.h"
#include "sim/files/json_value.h"
#include "sim/proof/read_samples.h"
#include "sim/proof/sample_call.h"
#include "sim/recording/recording.h"
#include "sim/replay/recorded_types.h"
#include "sim/report/ops_text.h"
#include "sim/report/paint.h"
#include "sim/report/run_diff.h"
#include "sim/report/run_gate.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

// An input of a sample, whole on each rank.
Argument spec_of(const SampleInput& input, const MeshLayout* layout) {
  const bool real = input.fill == Fill::kReal || input.fill == Fill::kUnit;
  const DType dtype = real ? DType::kF32 : input.fill == Fill::kBool ? DType::kBool : DType::kI64;
  return layout->arena().spec(layout, Placements{Placement::replicate()},
                              contiguous_meta(input.shape, dtype));
}

// The sample call that verify-ops has for the op, on whole tensors; empty where it has none.
Arguments sampled_call(const OpRow& row, const MeshLayout* layout) {
  for (const OpSample& sample : all_samples()) {
    if (all_ops().find(sample.op) != &row) continue;
    Arguments args;
    const auto spec = [&](std::size_t slot) { return spec_of(sample.inputs.at(slot), layout); };
    for (const Argument& argument : sample.args) args.push_back(filled_in(argument, spec));
    return bind_arguments(row, std::move(args));
  }
  return {};
}

}  // namespace

int ops_command(const OpsArguments& arguments) {
  const OpRegistry& registry = all_ops();
  const std::string text = arguments.common.json ? ops_json(registry, arguments.name) + "\n"
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
  print_text(arguments.common.json ? gate_json(runs) + "\n" : gate_text(runs));
  return std::ranges::all_of(runs, &GatedRun::met) ? kFine : kFailed;
}

}  // namespace

int diff_command(const DiffArguments& arguments) {
  if (!arguments.gate.empty()) return gate_command(arguments);
  const std::vector<RunDiff> runs = diff_runs(arguments.a, arguments.b);
  const std::string text = arguments.common.json ? diff_json(runs) + "\n"
                                                 : diff_text(runs, arguments.a, arguments.b,
                                                             arguments.common.stdout_color());
  print_text(text);
  for (const RunDiff& run : runs) {
    if (!run.equal()) return kFailed;
  }
  return kFine;
}

int doctor_command(const CommonArguments& arguments) {
  const char* path = std::getenv("PATH");
  std::vector<std::string> backends;
  for (const std::string_view name : backend_names()) backends.emplace_back(name);
  const std::vector<Finding> findings = examine(
      {.root = "", .path = path != nullptr ? path : "", .variable = nccl::environment}, backends);
  const std::string text = arguments.json ? doctor_json(findings) + "\n"
                                          : doctor_text(findings, arguments.stdout_color());
  print_text(text);
  return kFine;
}

namespace {

std::string types_text(const InferredTypes& inferred, const std::string& file, Color color) {
  std::string out =
      fmt::format("{}  on mesh {}\n", paint(file, Ink::kTitle, color), inferred.mesh->text());
  std::size_t width = 0, held = 0;
  for (const InferredType& value : inferred.values) {
    width = std::max(width, value.name.size());
    held = std::max(held, value.held.size());
  }
  for (const InferredType& value : inferred.values) {
    out += fmt::format("{:>5}  {:<{}}  {:<{}}", value.line, value.name, width, value.held, held);
    for (std::size_t dim = 0; dim < value.types.size(); ++dim) {
      if (value.types[dim].empty()) continue;
      out += fmt::format("  {} {:<4}", inferred.mesh->names()[dim], value.types[dim]);
    }
    out += value.why.empty() ? "" : "  " + value.why;
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

Json json_of(const InferredTypes& inferred, const std::string& file) {
  Json out = {{"file", file},
              {"ok", inferred.failure.empty()},
              {"mesh", Json::array()},
              {"values", Json::array()}};
  if (!inferred.failure.empty()) out["failure"] = inferred.failure;
  for (std::size_t dim = 0; dim < inferred.mesh->ndim(); ++dim) {
    out["mesh"].push_back(inferred.mesh->names()[dim]);
  }
  for (const InferredType& value : inferred.values) {
    out["values"].push_back({{"name", value.name},
                             {"line", value.line},
                             {"type", value.held},
                             {"types", value.types},
                             {"why", value.why}});
  }
  return out;
}

InferredTypes types_of(const TypesArguments& arguments, const std::string& path) {
  if (!is_recording_file(path)) {
    if (!arguments.one.empty()) {
      FileBytes::open(path);  // one that cannot be read is told as such
      fail(Fix{"leave it out: one device runs beside a scenario's ranks"},
           "{}: a scenario takes no second file", arguments.one);
    }
    const Scenario scenario = open_scenario(path, arguments.run).first();
    const ScenarioOptions options = options_of(arguments.run, scenario);
    if (is_shape_only(options.backend)) {
      fail(Fix{"give it smaller sizes with --set, and --backend threads"},
           "{}: types follow from values, and backend {} has none", path, options.backend);
    }
    return infer_types(scenario, options);
  }
  if (arguments.annotate || !arguments.out.empty()) {
    fail(Fix{"write spmd.assert_type(x, {...}) at the lines that `shardlab types` lists"},
         "--annotate: {} is a recording, and has no text of the program", path);
  }
  const RecordedProgram ranks = read_recording(path, export_options(arguments.run));
  print_notes(ranks.notes);
  if (arguments.one.empty()) return types_of_recording(ranks, nullptr);
  const RecordedProgram one = read_recording(arguments.one, export_options(arguments.run));
  if (one.ranks == 1 && !one.shapes_only) return types_of_recording(ranks, &one);
  fail(Fix{"record the script on one process: shardlab record --ranks 1 --processes train.py"},
       "{}: no recording of one process with values", arguments.one);
}

}  // namespace

int types_command(const TypesArguments& arguments) {
  const std::string path = scenario_files({arguments.file}).front();
  if (!arguments.out.empty() && arguments.out == path) {
    fail(Fix{"name another file"}, "--out {} is the file that is read", path);
  }
  const InferredTypes inferred = types_of(arguments, path);
  if (!inferred.failure.empty()) {
    print({.err = fmt::format("{}: {}\n", path, inferred.failure)});
  }
  if (!arguments.out.empty()) {
    write_file(arguments.out, inferred.annotated);
  } else if (arguments.annotate) {
    print_text(inferred.annotated);
  } else if (arguments.run.common.json) {
    print({.out = json_line(json_of(inferred, path)) + "\n"});
  } else {
    print_text(types_text(inferred, path, arguments.run.common.stdout_color()));
  }
  return inferred.failure.empty() ? kFine : kFailed;
}

}  // namespace shardlab
