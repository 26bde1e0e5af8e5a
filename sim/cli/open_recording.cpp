// The scenario is text in memory, as if it were stored next to the recording.
#include "sim/cli/open_recording.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/torch_dtype.h"
#include "dispatch/all_ops.h"
#include "sim/cli/run_arguments.h"
#include "sim/cli/spec_arguments.h"
#include "sim/edit/symptom.h"
#include "sim/files/json_value.h"
#include "sim/graph/graph_file.h"
#include "sim/graph/graph_scenario.h"
#include "sim/judge/scenario_run.h"
#include "sim/remesh/mesh_graph.h"
#include "sim/remesh/placings.h"
#include "sim/remesh/writes.h"
#include "sim/replay/replay.h"
#include "sim/replay/self_test.h"
#include "sim/run/one_device.h"
#include "sim/scenario/recorded_tensors.h"
#include "sim/verify/early_judge.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

// Without --mesh one rank, or the mesh that was recorded.
PlanMesh mesh_of(const RunArguments& arguments, const RecordedProgram& recording) {
  PlanMesh mesh;
  if (arguments.mesh.empty()) {
    if (recording.ranks == 1) return {{"all", 1}};
    const GraphMesh& all = recording.meshes.at(0);
    for (std::size_t dim = 0; dim < all.shape.size(); ++dim) {
      mesh.push_back({dim_name(all, dim), all.shape[dim]});
    }
    return mesh;
  }
  const MeshLayout* layout = parse_mesh(arguments.mesh);
  for (std::size_t i = 0; i < layout->names().size(); ++i) {
    mesh.push_back({layout->names()[i], layout->shape()[i]});
  }
  return mesh;
}

std::optional<DType> dtype_of_run(const RunArguments& arguments) {
  if (arguments.dtype.empty()) return std::nullopt;
  const auto dtype = parse_written_dtype(arguments.dtype);
  if (dtype && is_floating(*dtype)) return dtype;
  fail(Fix{"--dtype f64"}, "--dtype {}: no floating dtype", arguments.dtype);
}

}  // namespace

// A recording on its way to a mesh.
struct Remesh {
  std::shared_ptr<const RecordedProgram> recording;
  CallProgram program;
  PlanMesh mesh;
  PlanLayouts layouts;

  MeshPlan plan(const RunArguments& arguments) const {
    return plan_of(program, mesh, arguments.plan, layouts);
  }
};

namespace {

Remesh remesh_of(std::shared_ptr<const RecordedProgram> recording, const RunArguments& arguments) {
  Remesh remesh{.recording = recording,
                .program = program_of(*recording),
                .mesh = mesh_of(arguments, *recording),
                .layouts = {}};
  renew_written(remesh.program);
  if (arguments.without_optimizer) remesh.program.updates.clear();
  if (!arguments.place_file.empty()) read_layouts(arguments.place_file, remesh.layouts);
  for (const std::string& text : arguments.placings) {
    remesh.layouts.placings.push_back(parse_placing(text));
  }
  return remesh;
}

ScenarioFile scenario_of(const CallProgram& program, const PlanMesh& mesh, const MeshPlan& plan,
                         const RunArguments& arguments) {
  auto text = std::make_shared<SourceText>(
      program.recording->path, mesh_scenario(program, mesh, plan, dtype_of_run(arguments)));
  return ScenarioFile::read(std::move(text), settings_of(arguments));
}

// Gradients are those of our own tape, which has no hooks of the program's.
void refuse_hooks(const RecordedProgram& recording) {
  const auto hook = std::ranges::find(recording.events, "hook", &RecordedEvent::node);
  if (hook == recording.events.end()) return;
  fail(ErrorKind::kUnsupported,
       Fix{"let an autograd.Function change it, or replay it as it is: shardlab replay " +
           recording.path},
       "{}: a hook that changes a gradient, by {} at {}, is not taken to another mesh yet",
       recording.path, hook->op, place_of(recording, *hook));
}

void print_self_test(const SelfTest& test, const RunArguments& arguments) {
  if (arguments.common.json || arguments.self_test_is_known) return;
  print({.out = self_test_text(test)});
}

// Runs that round differently are made where they decide. `drain`, of all runs, may be null: then
// the run in f64 is kept.
bool holds_alone(const CallProgram& program, const Scenario& scenario, KnownAlone& alone,
                 const RunArguments& arguments, ValueDrain* drain = nullptr) {
  SelfTestRuns runs(program);
  runs.take(alone);
  SelfTest test = runs.test();
  const bool same_parameters = arguments.weights.empty();
  if (!test.ok() && same_parameters) {
    alone.in_f64 = run_first_alone(scenario, all_ops(), Precision::kReference, drain);
    runs.round_as(*alone.in_f64);
    if (drain != nullptr) alone.in_f64 = nullptr;
    test = runs.test();
  }
  if (!test.ok() && same_parameters) {
    for (const std::uint64_t nudge : {1, 2, 3, 4, 5, 6}) {
      runs.round_as(*run_first_alone(scenario, all_ops(), Precision::kDeclared, drain, nudge));
    }
    test = runs.test();
  }
  if (!test.ok()) refuse_hooks(*program.recording);
  const bool json = arguments.common.json;
  if (test.ok()) print_self_test(test, arguments);
  if (!test.ok()) {
    const ReplayReport report{.agree = test.values + test.parameters + test.gradients,
                              .undecided = test.undecided,
                              .differences = test.differences};
    print({.out = json ? replay_json(*program.recording, report).dump() + "\n" : "",
           .err = self_test_text(test)});
  }
  if (test.ok() || same_parameters) return test.ok();
  print_notes({arguments.weights + ": with other parameters than the recorded ones, the values are "
                                   "compared with one device alone"});
  return true;
}

// Sizes of an exported program are its own settings; the others are the scenario's.
RunArguments without_sizes(RunArguments arguments, const std::vector<ExportedSize>& sizes) {
  std::erase_if(arguments.settings, [&](const std::string& text) {
    return std::ranges::count(sizes, parse_setting(text).key, &ExportedSize::symbol) > 0;
  });
  return arguments;
}

void print_sizes(const std::vector<ExportedSize>& sizes) {
  for (const ExportedSize& size : sizes) {
    if (size.of.empty()) continue;
    print({.out = {},
           .err = fmt::format("note: the size {0} is {1}: {2}; --set {0}=N gives it another\n",
                              size.symbol, size.size ? std::to_string(*size.size) : "null",
                              text_of_list(size.of, ", "))});
  }
}

// Ranks that have other rows of a batch would cut it elsewhere.
void check_sizes(const CallProgram& program, const PlanMesh& mesh) {
  std::int64_t ranks = 1;
  for (const PlanMeshDim& dim : mesh) ranks *= dim.size;
  if (ranks == 1 || program.sizes_of_data.empty()) return;
  fail(ErrorKind::kUnsupported,
       Fix{"replay it as it is, or run it on one rank: other data is another program"}, "{}: {}",
       program.recording->path, program.sizes_of_data.front());
}

}  // namespace

RecordedAlone::RecordedAlone(std::shared_ptr<const Remesh> remesh, Scenario scenario,
                             RunArguments arguments)
    : remesh_(std::move(remesh)),
      scenario_(std::move(scenario)),
      arguments_(std::move(arguments)),
      values_(std::in_place, remesh_->program) {}

void RecordedAlone::kept(const RecordedValue& value) { values_->take(value); }

void RecordedAlone::ends(bool whole) {
  if (whole) test_ = values_->test();
  values_.reset();
}

bool RecordedAlone::holds() {
  if (test_ && test_->ok()) {
    print_self_test(*test_, arguments_);
    return true;
  }
  WantedValues wanted(*scenario_.program, SelfTestRuns(remesh_->program).names());
  const auto alone = run_first_alone(scenario_, all_ops(), Precision::kDeclared, &wanted);
  return holds_alone(remesh_->program, scenario_, *alone, arguments_, &wanted);
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print({.out = {}, .err = "note: " + note + "\n"});
}

ExportOptions export_options(const RunArguments& arguments) {
  ExportOptions options{
      .backward = arguments.backward, .weights = arguments.weights, .renames = arguments.renames};
  for (const std::string& text : arguments.settings) {
    const Setting setting = parse_setting(text);
    if (const auto* size = std::get_if<std::int64_t>(&setting.value)) {
      options.sizes[setting.key] = *size;
    }
  }
  return options;
}

std::optional<OpenedRecording> open_recording(const std::string& path, const RunArguments& given,
                                              int& code) {
  return open_recording(
      std::make_shared<const RecordedProgram>(read_recording(path, export_options(given))), given,
      code);
}

std::optional<OpenedRecording> open_recording(std::shared_ptr<const RecordedProgram> program_file,
                                              const RunArguments& given, int& code,
                                              SelfTesting when) {
  const RecordedProgram& recording = *program_file;
  const std::string& path = recording.path;
  const auto kept = RecordedTensors::keep(path, program_file);
  const RunArguments arguments = without_sizes(given, recording.sizes);
  if (!arguments.backward.empty() && !recording.exported) {
    fail(Fix{"leave it out: the file says what was differentiated"},
         "--backward: {} is no exported program", path);
  }
  dtype_of_run(arguments);  // refused before anything runs
  const auto remesh = std::make_shared<const Remesh>(remesh_of(program_file, arguments));
  const CallProgram& program = remesh->program;
  const PlanMesh& mesh = remesh->mesh;
  check_sizes(program, mesh);
  const MeshPlan plan = remesh->plan(arguments);
  if (arguments.toml) {
    print({.out = mesh_scenario(program, mesh, plan, dtype_of_run(arguments))});
    return std::nullopt;
  }
  if (!recording.error.empty()) {
    fail(Fix{"mend the program and record it again; shardlab replay goes as far"},
         "{}: the program failed when it was recorded: {}", path, recording.error);
  }
  for (const auto* notes : {&recording.notes, &program.notes, &plan.notes}) print_notes(*notes);
  if (recording.exported) print_sizes(recording.sizes);
  OpenedRecording opened{scenario_of(program, mesh, plan, arguments), nullptr, remesh};
  opened.file.hold(kept);
  // Without values there is nothing to hold to PyTorch's.
  const Scenario shown = opened.file.first();
  const std::string& backend = arguments.backend.empty() ? shown.backend : arguments.backend;
  if (recording.shapes_only || recording.exported || is_shape_only(backend)) return opened;
  // The recorded dtypes are those that PyTorch's values have.
  const bool as_recorded = arguments.dtype.empty();
  const ScenarioFile own = as_recorded ? opened.file : scenario_of(program, mesh, plan, {});
  const Scenario scenario = own.first();
  const bool is_kept = as_recorded && opened.file.points().size() == 1;
  if (when == SelfTesting::kBeside && is_kept && arguments.weights.empty() &&
      judges_early(scenario, options_of(arguments, scenario))) {
    opened.beside = std::make_shared<RecordedAlone>(remesh, scenario, arguments);
    return opened;
  }
  auto alone = run_first_alone(scenario, all_ops());
  if (!holds_alone(program, scenario, *alone, arguments)) {
    code = kFailed;
    return std::nullopt;
  }
  if (is_kept) opened.alone = std::move(alone);
  return opened;
}

OtherLayouts other_layouts(const OpenedRecording& opened, const RunArguments& given) {
  const std::shared_ptr<const Remesh> remesh = opened.remesh;
  if (remesh == nullptr) return {};
  const RunArguments arguments = without_sizes(given, remesh->recording->sizes);
  OtherLayouts others;
  others.layouts = other_placings(remesh->program, remesh->mesh, remesh->plan(arguments));
  others.with = [remesh, arguments](const std::vector<std::string>& placings) {
    Remesh with = *remesh;
    for (const std::string& text : placings) {
      with.layouts.placings.push_back(parse_placing(text));
    }
    return scenario_of(with.program, with.mesh, with.plan(arguments), arguments).first();
  };
  return others;
}

const char* step_option(const RunArguments& arguments) {
  return !arguments.mesh.empty()         ? "--mesh"
         : !arguments.plan.empty()       ? "--plan"
         : !arguments.placings.empty()   ? "--place"
         : !arguments.place_file.empty() ? "--place-file"
         : !arguments.dtype.empty()      ? "--dtype"
         : !arguments.backward.empty()   ? "--backward"
         : !arguments.weights.empty()    ? "--weights"
         : arguments.without_optimizer   ? "--no-optimizer"
         : arguments.toml                ? "--toml"
                                         : nullptr;
}

void refuse_recording_options(const std::string& path, const RunArguments& arguments) {
  const char* option = step_option(arguments);
  if (option == nullptr || !std::filesystem::exists(path)) return;
  fail(Fix{"--set mesh.tp=4 gives a scenario's mesh another size"},
       "{}: {} is no recording of PyTorch, and has a mesh and placements of its own", option, path);
}

// Points run one after the other until one fails.

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
